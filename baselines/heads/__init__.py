"""Small networks that project the vectors of foundation models into a shared space, trained while an agent learns."""

"""Text-to-image diffusion models that run here, by name or local path: loading, and the errors of their denoising."""

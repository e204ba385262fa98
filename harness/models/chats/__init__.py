"""Chats: language models that answer in text, one module per way of reaching them."""

"""Chats: the language models that answer in words, by how they are reached."""

"""The backend of ``torch.compile``, and the class that uses it."""

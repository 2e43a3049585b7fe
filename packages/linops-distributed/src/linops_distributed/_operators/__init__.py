"""The operators over ranks: what each computes on its shares and exchanges with others."""

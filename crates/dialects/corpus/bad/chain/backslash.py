# error: this text is not closed
a = "\
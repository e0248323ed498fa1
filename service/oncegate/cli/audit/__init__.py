"""The verb `oncegate audit`: have you any duplicates?"""

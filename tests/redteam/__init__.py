"""Red team: fuzzers of the doors and of every parser. Each prints its seed first, and stops at the first failure.

http_fuzz     requests that nobody should send, and those that the OpenAPI document allows   --seconds N --seed S
parser_fuzz   valid files, mutated: archives, documents, transcripts, databases, records     --seconds N --seed S
"""

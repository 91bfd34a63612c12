"""State of users' own processors, with the TTL policies of FLIP-24, around that of Spark's
transformWithState.
"""

"""`freshtable demo`: the main job on real flights, from an empty folder to verified tables,
in about a minute.
"""

"""The view of the graph of tables: its layout, the drawing in SVG, and the same as a tree of links."""

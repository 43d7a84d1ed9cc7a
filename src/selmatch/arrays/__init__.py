"""The array types behind the formulas: how each library spells a function, and the library's own dual numbers."""

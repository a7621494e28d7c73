// A source of the library, which a page shows whole.
  HERE

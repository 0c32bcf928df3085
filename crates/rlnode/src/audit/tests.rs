//! Tests of the record as a whole: written by the writer, damaged, merged, examined.

//! A test-only package: the lock manager of `cellar-heap` and the hand-over of its lane, as they are, under
//! shuttle, which chooses the order of their steps.
//!
//! The tests compile the same source files with shuttle's locks in the place of those of the standard library. In
//! a package outside the default members, nobody else compiles shuttle.

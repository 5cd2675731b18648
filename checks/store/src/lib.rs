//! A test-only package: the tests that `object_store` has for its implementations, over a disk group.
//!
//! They want a feature of `object_store` that the program does not. In a package outside the
//! default members, that feature does not make DataFusion compile a second time.

//! An embedded API server that behaves like kube-apiserver on the wire.

pub mod builtin;
pub mod kind;
pub mod types;

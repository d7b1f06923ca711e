//! An embedded API server that behaves like kube-apiserver on the wire.

pub mod store;

//! A simulated fleet: nodes that are not alike, a scheduler, kubelets and storage, so that a laptop
//! shows what a mixed cluster does.

pub mod storage;

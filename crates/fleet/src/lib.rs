//! A simulated fleet: nodes that are not alike, a scheduler, kubelets and storage, so that a laptop
//! shows what a mixed cluster does.
#![allow(missing_docs)]
pub const SIMULATED: &str = "fleet.medley.dev/simulated";
#[derive(Default)]
pub struct Fleet;
impl Fleet {
    pub fn demo() -> Result<Self, std::fmt::Error> {
        Ok(Self)
    }
    pub fn parse(_: &str) -> Result<Self, std::fmt::Error> {
        Ok(Self)
    }
}
pub struct Options {
    pub fleet: Fleet,
    pub speed: f64,
    pub scheduler: kube::Client,
    pub kubelet: kube::Client,
}
pub async fn start(_: &chassis::Manager, _: Options) -> Result<(), std::fmt::Error> {
    Ok(())
}

use super::{options, prerequisites};
use crate::profile::Registry;

#[test]
fn options_have_defaults_and_ranges() {
    let text = options("load-aware-rebalancing");
    let lines: Vec<_> = text.lines().collect();
    for expected in [
        "options.loadAware.deschedulingIntervalSeconds (integer, default 60, 60 to 86400): The interval of descheduler runs in seconds.",
        "options.loadAware.mode (string, default Automatic, one of Automatic, Predictive): ",
        "options.loadAware.enablePSIMetrics (boolean, default true): ",
        "options.loadAware.evictionLimitTotal (integer, 1 to 1000): ",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(expected)),
            "{expected:?} is not in\n{text}"
        );
    }
    let density = options("virt-higher-density");
    assert!(
        density.contains(
            "options.virtHigherDensity.memoryToRequestRatio (integer, default 150, 100 to 300): "
        ),
        "{density}"
    );
    assert!(
        density
            .contains("options.virtHigherDensity.ksmConfiguration.enabled (boolean, default true)"),
        "{density}"
    );
    assert_eq!(options("example-profile"), "");
}

#[test]
fn prerequisites_are_named_by_their_served_version() {
    let registry = Registry::standard::<&str>(&[]).unwrap();
    let profile = registry.get("load-aware-rebalancing").unwrap();
    let text = prerequisites(&**profile, |of, versions| {
        assert!(!versions.is_empty());
        (of.kind == "HyperConverged").then(|| "v1beta1".to_owned())
    });
    assert_eq!(
        text,
        "KubeDescheduler (operator.openshift.io/v1), \
         MachineConfig (machineconfiguration.openshift.io/v1), HyperConverged (hco.kubevirt.io/v1beta1)"
    );
    let none = prerequisites(&**profile, |_, _| None);
    assert!(
        none.ends_with("HyperConverged (hco.kubevirt.io/v1 or v1beta1)"),
        "{none}"
    );
}

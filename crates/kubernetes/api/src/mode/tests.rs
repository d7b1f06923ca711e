use rstest::rstest;

use super::*;
use crate::cdi::Named;
use crate::operators::GenuineOperator;

const OPERATOR: GenuineOperator = GenuineOperator {
    title: "the SSP operator",
    deployment: "ssp-operator",
    lease: Some("734f7229.kubevirt.io"),
    namespaces: &[],
};

fn running() -> RunningOperator {
    RunningOperator {
        operator: OPERATOR,
        deployment: Some(Named {
            namespace: "kubevirt".to_owned(),
            name: "ssp-operator".to_owned(),
        }),
        restorer: None,
        lease: None,
    }
}

#[rstest]
#[case::without_rival(ModeSetting::Auto, true, None, false, Mode::Manage, "Managing")]
#[case::beside_rival(
    ModeSetting::Auto,
    true,
    None,
    true,
    Mode::Assist,
    "UpstreamOperatorRuns"
)]
#[case::assist_is_set(ModeSetting::Assist, true, None, false, Mode::Assist, "SetByPolicy")]
#[case::off_is_set(ModeSetting::Off, true, None, false, Mode::Off, "SetByPolicy")]
#[case::off_beside_rival(ModeSetting::Off, true, None, true, Mode::Off, "SetByPolicy")]
#[case::no_crd(ModeSetting::Auto, true, Some("SSP"), false, Mode::Off, "NotInstalled")]
#[case::not_enabled(ModeSetting::Auto, false, None, false, Mode::Off, "NotEnabled")]
#[case::not_enabled_beside_rival(
    ModeSetting::Assist,
    false,
    Some("SSP"),
    true,
    Mode::Off,
    "NotEnabled"
)]
fn mode_follows_rival_and_policy(
    #[case] setting: ModeSetting,
    #[case] enabled: bool,
    #[case] missing: Option<&str>,
    #[case] beside: bool,
    #[case] mode: Mode,
    #[case] reason: &str,
) {
    let running = running();
    let found = decide(&ModeInputs {
        component: "images-ssp",
        setting,
        policy: "GoldenImagePolicy default",
        enabled,
        missing,
        running: beside.then_some(&running),
    });
    assert_eq!((found.mode, found.reason), (mode, reason));
    let owner = match (mode, beside) {
        (Mode::Manage, _) => Some("images-ssp"),
        (_, true) => Some("the SSP operator"),
        (_, false) => None,
    };
    assert_eq!(found.owner.as_deref(), owner);
    assert_eq!(
        found
            .message
            .contains("the SSP operator runs (Deployment kubevirt/ssp-operator)"),
        beside,
        "{}",
        found.message
    );
}

#[test]
fn settings_are_spelled_as_in_the_policy() {
    for (text, setting) in ModeSetting::VALUES.into_iter().zip([
        ModeSetting::Auto,
        ModeSetting::Assist,
        ModeSetting::Off,
    ]) {
        assert_eq!(serde_json::to_value(setting).unwrap(), text);
    }
}

use api::cdi::Named;
use api::mode::Mode;
use rstest::rstest;

use super::*;

fn running(operator: GenuineOperator) -> RunningOperator {
    RunningOperator {
        operator,
        deployment: Some(Named {
            namespace: "kubevirt-hyperconverged".to_owned(),
            name: operator.deployment.to_owned(),
        }),
        restorer: None,
        lease: None,
    }
}

#[rstest]
#[case::hco(Layer::Hco)]
#[case::ssp(Layer::Ssp)]
#[case::cdi(Layer::Cdi)]
#[case::vm(Layer::Vm)]
fn layer_assists_beside_its_operator_and_manages_without(#[case] layer: Layer) {
    let running = layer.operator().map(running);
    for running in [None, running.as_ref()] {
        let mode = layer.mode(&LayerState {
            setting: ModeSetting::Auto,
            enabled: true,
            installed: true,
            running,
        });
        let expected = if running.is_some() {
            Mode::Assist
        } else {
            Mode::Manage
        };
        assert_eq!(mode.mode, expected);
        assert_eq!(steps_back(&mode), running.is_some());
        let condition = layer.managing(&mode);
        assert_eq!(condition.status, running.is_none());
        assert_eq!(condition.kind, layer.condition());
    }
}

#[test]
fn every_reason_of_a_condition_is_documented() {
    for layer in Layer::ALL {
        for setting in [ModeSetting::Auto, ModeSetting::Assist, ModeSetting::Off] {
            for installed in [true, false] {
                let mode = layer.mode(&LayerState {
                    setting,
                    enabled: true,
                    installed,
                    running: None,
                });
                // Asserts that it is documented.
                layer.managing(&mode);
            }
        }
    }
}

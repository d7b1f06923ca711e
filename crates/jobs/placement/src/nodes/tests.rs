use std::cell::Cell;

use super::*;

#[test]
fn fit_is_computed_once_with_a_memo() {
    let (cluster, memo) = (Cluster::default(), SurveyMemo::default());
    for (nodes, expected) in [
        (Nodes::with_memo(&cluster, &memo), 1),
        (Nodes::from(&cluster), 2),
    ] {
        let computed = Cell::new(0);
        for _ in 0..2 {
            nodes.fit(FitKey::default, || {
                computed.set(computed.get() + 1);
                Fit::default()
            });
        }
        assert_eq!(computed.get(), expected);
    }
}

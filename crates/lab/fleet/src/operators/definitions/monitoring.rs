//! OpenShift's `Route`, by which operators find Prometheus. There an aggregated API server serves it.

use serde_json::json;

use crate::schema::{Crd, list, object, open, operator_conditions, spec_and_status, text, with};

pub(super) fn route() -> Crd {
    let target = with(
        open(object([("kind! name!", text())])),
        json!({ "description": "Where the router sends requests." }),
    );
    let spec = open(object([("host path", text()), ("to!", target)]));
    let ingress = open(object([
        ("conditions", operator_conditions()),
        ("host routerName", text()),
    ]));
    let status = object([("ingress", list(&ingress))]);
    Crd::new(
        "route.openshift.io",
        "v1",
        "Route",
        spec_and_status(spec, status),
    )
    .columns(&["Host .status.ingress[0].host"])
}

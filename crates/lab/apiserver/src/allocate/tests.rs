use super::*;

fn used(services: &[Value]) -> Used {
    let mut used = Used::default();
    for service in services {
        used.add(service);
    }
    used
}

fn allocate(mut service: Value, old: Option<&Value>, others: &[Value]) -> Result<Value, String> {
    match Allocation::new(&mut service, old, used(others), false).run() {
        Ok(()) => Ok(service),
        Err(status) => Err(status.message),
    }
}

fn service(spec: &Value) -> Value {
    json!({"metadata": {"name": "s"}, "spec": spec})
}

#[test]
fn allocated_addresses_are_free() {
    let first = allocate(service(&json!({"type": "ClusterIP"})), None, &[]).unwrap();
    assert_eq!(first["spec"]["clusterIP"], "10.0.0.2");
    assert_eq!(first["spec"]["clusterIPs"], json!(["10.0.0.2"]));
    let second = allocate(service(&json!({"type": "ClusterIP"})), None, &[first]).unwrap();
    assert_eq!(second["spec"]["clusterIP"], "10.0.0.3");
}

#[test]
fn requested_addresses_have_to_be_free_and_in_range() {
    let other = service(&json!({"type": "ClusterIP", "clusterIP": "10.0.0.9"}));
    let ask = |address: &str| {
        let spec = json!({"type": "ClusterIP", "clusterIP": address});
        allocate(service(&spec), None, std::slice::from_ref(&other)).map(drop)
    };
    assert_eq!(ask("10.0.0.8"), Ok(()));
    assert_eq!(
        ask("10.0.0.9").unwrap_err(),
        "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"
    );
    assert_eq!(
        ask("192.0.2.1").unwrap_err(),
        "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
    );
}

#[test]
fn one_port_of_two_protocols_has_one_node_port() {
    let ports = json!([
        {"port": 53, "protocol": "UDP"},
        {"port": 53, "protocol": "TCP"},
        {"port": 80, "protocol": "TCP"},
    ]);
    let made = allocate(
        service(&json!({"type": "NodePort", "ports": ports})),
        None,
        &[],
    )
    .unwrap();
    let numbers: Vec<i64> = node_ports(&made).collect();
    assert_eq!(numbers, [30_000, 30_000, 30_001]);
}

#[test]
fn requested_node_ports_have_to_be_free_and_in_range() {
    let other = service(&json!({"ports": [{"port": 1, "nodePort": 30_005}]}));
    let ask = |port: i64| {
        let spec = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]});
        allocate(service(&spec), None, std::slice::from_ref(&other)).map(drop)
    };
    assert_eq!(ask(30_006), Ok(()));
    assert_eq!(
        ask(30_005).unwrap_err(),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30005: provided port is already allocated"
    );
    assert_eq!(
        ask(80).unwrap_err(),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
    );
}

#[test]
fn type_change_allocates_only_missing_values() {
    let old = service(&json!({"type": "ExternalName"}));
    let ports = json!([{"port": 80}]);
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports});
    let other = service(&json!({"clusterIP": "10.0.0.2", "ports": [{"nodePort": 30_000}]}));
    let new = allocate(service(&spec), Some(&old), &[other]).unwrap();
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.3");
    assert_eq!(node_ports(&new).collect::<Vec<_>>(), [30_001]);
    assert_eq!(new["spec"]["healthCheckNodePort"], 30_002);
    let again = allocate(new.clone(), Some(&new), &[]).unwrap();
    assert_eq!(again, new);
}

#[test]
fn load_balancers_may_disable_node_ports() {
    let spec = json!({
        "type": "LoadBalancer",
        "allocateLoadBalancerNodePorts": false,
        "ports": [{"port": 80}],
    });
    let made = allocate(service(&spec), None, &[]).unwrap();
    assert_eq!(node_ports(&made).count(), 0);
}

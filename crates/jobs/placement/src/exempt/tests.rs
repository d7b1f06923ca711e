//! Namespaces whose pods are never placed.

use rstest::rstest;

use super::ExemptNamespaces;

#[rstest]
#[case("kube-system", true)]
#[case("kube-flannel", true)]
#[case("openshift", true)]
#[case("openshift-ovn-kubernetes", true)]
#[case("hypershift", true)]
#[case("hypershift-sharedingress", true)]
#[case("default", false)]
#[case("openshiftish", false)]
#[case("my-kube-system", false)]
#[case("kube", false)]
fn system_namespaces_are_exempt(#[case] namespace: &str, #[case] exempt: bool) {
    assert_eq!(ExemptNamespaces::default().contains(namespace), exempt);
}

#[test]
fn administrators_add_names_and_prefixes() {
    let mut exempt = ExemptNamespaces::default();
    assert!(exempt.add("calico-system") && exempt.add("cattle-*"));
    for (namespace, expected) in [
        ("calico-system", true),
        ("calico-systems", false),
        ("cattle-fleet", true),
        ("cattle", false),
        ("kube-system", true),
    ] {
        assert_eq!(exempt.contains(namespace), expected, "{namespace}");
    }
    assert!(exempt.names().contains("calico-system"));
    assert!(
        exempt
            .condition()
            .contains("!request.namespace.startsWith('cattle-')")
    );
}

/// The text ends up in a CEL expression of the registration, which applies to all pods.
#[rstest]
fn anything_but_a_namespace_is_rejected(
    #[values(
        "",
        "*",
        "a*b",
        "*a",
        "-a",
        "a-",
        "A",
        "a b",
        "a') || ('' == '",
        "a.b",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    )]
    pattern: &str,
) {
    let mut exempt = ExemptNamespaces::default();
    assert!(!exempt.add(pattern));
    assert_eq!(exempt, ExemptNamespaces::default());
}

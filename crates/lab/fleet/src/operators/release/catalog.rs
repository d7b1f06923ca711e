//! The cluster operators of the simulated releases and their update behaviour.

/// Behaviour of an operator during an update, once its own pods are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateBehaviour {
    /// Its operands take seconds.
    Usual,
    /// Its operands take minutes.
    Slow,
    /// It is degraded for a while and recovers.
    Troubled,
    /// All control-plane nodes have to reboot.
    Machines,
}

/// An operand, whose image the operator reports as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    /// Name in the report, without the suffix `-image`.
    pub(crate) name: &'static str,
    /// Name of its image in a release.
    pub(crate) image: &'static str,
    /// The component whose version it has, if not that of the release.
    pub(crate) version: Option<&'static str>,
}

/// A cluster operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperatorInfo {
    /// Name of its ClusterOperator.
    pub(crate) name: &'static str,
    /// Run level in the release.
    pub(crate) level: u32,
    /// Its namespace.
    pub(crate) namespace: &'static str,
    /// Name of its image in a release, and of its Deployment.
    pub(crate) image: &'static str,
    /// Whether it reports its image.
    pub(crate) adopts: bool,
    /// Its operands.
    pub(crate) operands: &'static [Operand],
    /// Its behaviour during an update.
    pub(crate) manner: UpdateBehaviour,
}

/// Image of the operating system of nodes.
pub(crate) const MACHINE_OS: &str = "rhel-coreos";
/// An image that is multi-architecture in both releases, as some real ones are.
pub(crate) const ALWAYS_SEVERAL: &str = "cluster-storage-operator";
/// The daemon on every node, in the namespace of its operator.
pub(crate) const DAEMON: &str = "machine-config-daemon";
/// The component version that `kube-apiserver` reports.
pub(crate) const KUBERNETES: (&str, &str) = ("kubernetes", "1.31.3");

const fn operator(
    name: &'static str,
    level: u32,
    namespace: &'static str,
    image: &'static str,
) -> OperatorInfo {
    OperatorInfo {
        name,
        level,
        namespace,
        image,
        adopts: true,
        operands: &[],
        manner: UpdateBehaviour::Usual,
    }
}

const fn operand(name: &'static str, image: &'static str) -> Operand {
    Operand {
        name,
        image,
        version: None,
    }
}

/// All cluster operators, in update order.
pub(crate) static OPERATORS: [OperatorInfo; 13] = [
    OperatorInfo {
        operands: &[operand("etcd", "etcd")],
        ..operator(
            "etcd",
            12,
            "openshift-etcd-operator",
            "cluster-etcd-operator",
        )
    },
    OperatorInfo {
        operands: &[Operand {
            version: Some(KUBERNETES.0),
            ..operand("kube-apiserver", "hyperkube")
        }],
        ..operator(
            "kube-apiserver",
            20,
            "openshift-kube-apiserver-operator",
            "cluster-kube-apiserver-operator",
        )
    },
    operator(
        "kube-controller-manager",
        25,
        "openshift-kube-controller-manager-operator",
        "cluster-kube-controller-manager-operator",
    ),
    operator(
        "kube-scheduler",
        25,
        "openshift-kube-scheduler-operator",
        "cluster-kube-scheduler-operator",
    ),
    OperatorInfo {
        adopts: false,
        ..operator(
            "openshift-apiserver",
            30,
            "openshift-apiserver-operator",
            "cluster-openshift-apiserver-operator",
        )
    },
    operator(
        "authentication",
        50,
        "openshift-authentication-operator",
        "cluster-authentication-operator",
    ),
    OperatorInfo {
        adopts: false,
        ..operator(
            "image-registry",
            50,
            "openshift-image-registry",
            "cluster-image-registry-operator",
        )
    },
    OperatorInfo {
        operands: &[operand("router", "haproxy-router")],
        ..operator(
            "ingress",
            50,
            "openshift-ingress-operator",
            "cluster-ingress-operator",
        )
    },
    OperatorInfo {
        manner: UpdateBehaviour::Slow,
        ..operator(
            "monitoring",
            50,
            "openshift-monitoring",
            "cluster-monitoring-operator",
        )
    },
    operator(
        "storage",
        50,
        "openshift-cluster-storage-operator",
        ALWAYS_SEVERAL,
    ),
    OperatorInfo {
        manner: UpdateBehaviour::Troubled,
        operands: &[operand("coredns", "coredns")],
        ..operator("dns", 70, "openshift-dns-operator", "cluster-dns-operator")
    },
    OperatorInfo {
        adopts: false,
        ..operator(
            "network",
            70,
            "openshift-network-operator",
            "cluster-network-operator",
        )
    },
    OperatorInfo {
        manner: UpdateBehaviour::Machines,
        ..operator(
            "machine-config",
            80,
            crate::operators::names::MACHINE_CONFIG_NAMESPACE,
            "machine-config-operator",
        )
    },
];

impl OperatorInfo {
    /// The images it uses, by their names in a release.
    pub(crate) fn images(&self) -> Vec<&'static str> {
        let mut images = vec![self.image];
        images.extend(self.operands.iter().map(|it| it.image));
        if self.manner == UpdateBehaviour::Machines {
            images.push(MACHINE_OS);
        }
        images
    }

    /// The operands, by name.
    pub(crate) fn operand_names(&self) -> Vec<&'static str> {
        self.operands.iter().map(|it| it.name).collect()
    }
}

/// An operator by the name of its ClusterOperator.
pub(crate) fn find(name: &str) -> Option<&'static OperatorInfo> {
    OPERATORS.iter().find(|it| it.name == name)
}

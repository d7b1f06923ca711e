//! The cluster operators of the simulated releases, and what each is like.

/// How an operator goes about an update, once its own pods are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Its operands take a moment.
    Usual,
    /// Its operands take minutes.
    Slow,
    /// It is degraded for a while, and recovers.
    Troubled,
    /// All machines of the control plane have to restart.
    Machines,
}

/// Something an operator looks after, whose image it reports as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    /// What it is reported as, with `-image` behind it.
    pub(crate) name: &'static str,
    /// What its image is called in a release.
    pub(crate) image: &'static str,
    /// The component whose version it has, if it has one of its own.
    pub(crate) version: Option<&'static str>,
}

/// A cluster operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct About {
    /// What its ClusterOperator is called.
    pub(crate) name: &'static str,
    /// When it is its turn.
    pub(crate) level: u32,
    /// Where it is.
    pub(crate) namespace: &'static str,
    /// What its image is called in a release, and in its namespace its Deployment.
    pub(crate) image: &'static str,
    /// Whether it reports its image.
    pub(crate) adopts: bool,
    /// What it looks after.
    pub(crate) operands: &'static [Operand],
    /// How it goes about an update.
    pub(crate) manner: Manner,
}

/// The image of the operating system of machines.
pub(crate) const MACHINE_OS: &str = "rhel-coreos";
/// An image that is for several architectures in both releases, as some in reality are.
pub(crate) const ALWAYS_SEVERAL: &str = "cluster-storage-operator";
/// What runs on every machine, in the namespace of its operator.
pub(crate) const DAEMON: &str = "machine-config-daemon";
/// The version of the component that `kube-apiserver` has.
pub(crate) const KUBERNETES: (&str, &str) = ("kubernetes", "1.31.3");

const fn operator(
    name: &'static str,
    level: u32,
    namespace: &'static str,
    image: &'static str,
) -> About {
    About {
        name,
        level,
        namespace,
        image,
        adopts: true,
        operands: &[],
        manner: Manner::Usual,
    }
}

const fn operand(name: &'static str, image: &'static str) -> Operand {
    Operand {
        name,
        image,
        version: None,
    }
}

/// All of them, in the order in which they are updated.
pub(crate) static OPERATORS: [About; 13] = [
    About {
        operands: &[operand("etcd", "etcd")],
        ..operator(
            "etcd",
            12,
            "openshift-etcd-operator",
            "cluster-etcd-operator",
        )
    },
    About {
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
    About {
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
    About {
        adopts: false,
        ..operator(
            "image-registry",
            50,
            "openshift-image-registry",
            "cluster-image-registry-operator",
        )
    },
    About {
        operands: &[operand("router", "haproxy-router")],
        ..operator(
            "ingress",
            50,
            "openshift-ingress-operator",
            "cluster-ingress-operator",
        )
    },
    About {
        manner: Manner::Slow,
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
    About {
        manner: Manner::Troubled,
        operands: &[operand("coredns", "coredns")],
        ..operator("dns", 70, "openshift-dns-operator", "cluster-dns-operator")
    },
    About {
        adopts: false,
        ..operator(
            "network",
            70,
            "openshift-network-operator",
            "cluster-network-operator",
        )
    },
    About {
        manner: Manner::Machines,
        ..operator(
            "machine-config",
            80,
            crate::operators::names::MACHINE_CONFIG_NAMESPACE,
            "machine-config-operator",
        )
    },
];

impl About {
    /// The images that it uses, as a release calls them.
    pub(crate) fn images(&self) -> Vec<&'static str> {
        let mut images = vec![self.image];
        images.extend(self.operands.iter().map(|it| it.image));
        if self.manner == Manner::Machines {
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
pub(crate) fn find(name: &str) -> Option<&'static About> {
    OPERATORS.iter().find(|it| it.name == name)
}

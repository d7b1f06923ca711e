//! Which programs there are, and how each is built. Versions are in the `go.mod` of each folder, and nowhere else.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

/// The modules, in the order in which they are built: what most suites need comes first.
pub(crate) const MODULES: [Module; 17] = [
    Module {
        folder: "etcd",
        path: "go.etcd.io/etcd/server/v3",
        programs: &[program("etcd", "")],
        ..MODULE
    },
    Module {
        folder: "kubernetes",
        path: "k8s.io/kubernetes",
        programs: &[
            program("kube-apiserver", "cmd/kube-apiserver"),
            program("kubectl", "cmd/kubectl"),
            program("kube-controller-manager", "cmd/kube-controller-manager"),
            program("kube-scheduler", "cmd/kube-scheduler"),
            program("kubelet", "cmd/kubelet"),
            suite("e2e.test", "test/e2e"),
        ],
        version: Version::Kubernetes,
        ..MODULE
    },
    Module {
        folder: "cri-tools",
        path: "sigs.k8s.io/cri-tools",
        programs: &[
            program("crictl", "cmd/crictl"),
            suite("critest", "cmd/critest"),
        ],
        version: Version::Variable("sigs.k8s.io/cri-tools/pkg/version.Version"),
        ..MODULE
    },
    Module {
        folder: "containerized-data-importer",
        path: "kubevirt.io/containerized-data-importer",
        programs: &[
            program("cdi-controller", "cmd/cdi-controller"),
            program("cdi-apiserver", "cmd/cdi-apiserver"),
            program("cdi-importer", "cmd/cdi-importer"),
        ],
        crds: Some(Crds::Program),
        ..MODULE
    },
    Module {
        folder: "kubevirt",
        path: "kubevirt.io/kubevirt",
        programs: &[
            program("virt-controller", "cmd/virt-controller"),
            program("virt-api", "cmd/virt-api"),
        ],
        version: Version::Variable("kubevirt.io/client-go/version.gitVersion"),
        crds: Some(Crds::Program),
        ..MODULE
    },
    Module {
        folder: "cluster-kube-descheduler-operator",
        path: "github.com/openshift/cluster-kube-descheduler-operator",
        programs: &[program(
            "cluster-kube-descheduler-operator",
            "cmd/cluster-kube-descheduler-operator",
        )],
        crds: Some(Crds::Files("manifests/*.crd.yaml")),
        edits: &DESCHEDULER_EDITS,
        ..MODULE
    },
    Module {
        folder: "multiarch-tuning-operator",
        path: "github.com/openshift/multiarch-tuning-operator",
        programs: &[
            program("multiarch-tuning-operator", "cmd"),
            suite(
                "multiarch-podplacement.test",
                "internal/controller/podplacement",
            ),
            suite("multiarch-operator.test", "internal/controller/operator"),
            suite(
                "multiarch-podplacementconfig.test",
                "internal/controller/podplacementconfig",
            ),
            suite(
                "multiarch-enoexecevent.test",
                "internal/controller/enoexecevent/handler",
            ),
        ],
        tags: "containers_image_openpgp",
        crds: Some(Crds::Files("config/crd/bases/*.yaml")),
        ..MODULE
    },
    Module {
        folder: "cluster-version-operator",
        path: "github.com/openshift/cluster-version-operator",
        programs: &[program("cluster-version-operator", "cmd")],
        crds: Some(Crds::FilesOf(
            "github.com/openshift/api",
            "config/v1/0000_00_cluster-version-operator_01_*.crd.yaml",
        )),
        ..MODULE
    },
    Module {
        folder: "oc",
        path: "github.com/openshift/oc",
        programs: &[program("oc", "cmd/oc")],
        tags: "containers_image_openpgp,include_gcs,include_oss",
        ..MODULE
    },
    Module {
        folder: "ssp-operator",
        path: "kubevirt.io/ssp-operator",
        programs: &[program("ssp-operator", "")],
        data: &[
            "data/common-templates-bundle",
            "data/vm-console-proxy-bundle",
        ],
        crds: Some(Crds::Files("config/crd/bases/*.yaml")),
        ..MODULE
    },
    Module {
        folder: "controller-runtime",
        path: "sigs.k8s.io/controller-runtime",
        programs: &[suite("controller-runtime-webhook.test", "pkg/webhook")],
        ..MODULE
    },
    // Integration tests of Kubernetes, with `medley apiserver` as their test server.
    Module {
        folder: "kubernetes",
        path: "k8s.io/kubernetes",
        programs: &[suite(
            "integration-apply.test",
            "test/integration/apiserver/apply",
        )],
        replacements: &[Replacement {
            module: "k8s.io/kubernetes",
            file: "cmd/kube-apiserver/app/testing/testserver.go",
            with: "replacements/kube-apiserver-testing/testserver.go",
        }],
        ..MODULE
    },
    Module {
        folder: "kubernetes",
        path: "k8s.io/kubernetes",
        programs: &[suite(
            "integration-apiextensions.test",
            "k8s.io/apiextensions-apiserver/test/integration",
        )],
        replacements: &[Replacement {
            module: "k8s.io/apiextensions-apiserver",
            file: "pkg/cmd/server/testing/testserver.go",
            with: "replacements/apiextensions-testing/testserver.go",
        }],
        ..MODULE
    },
    Module {
        folder: "containerd",
        path: "github.com/containerd/containerd/v2",
        programs: &[
            program("containerd", "cmd/containerd"),
            program("containerd-shim-runc-v2", "cmd/containerd-shim-runc-v2"),
            program("ctr", "cmd/ctr"),
        ],
        version: Version::Variable("github.com/containerd/containerd/v2/version.Version"),
        ..MODULE
    },
    Module {
        folder: "helm",
        path: "helm.sh/helm/v4",
        programs: &[program("helm", "cmd/helm")],
        version: Version::Variable("helm.sh/helm/v4/internal/version.version"),
        ..MODULE
    },
    Module {
        folder: "kwok",
        path: "sigs.k8s.io/kwok",
        programs: &[program("kwok", "cmd/kwok")],
        crds: Some(Crds::Files("kustomize/crd/bases/*.yaml")),
        ..MODULE
    },
    // Nodes and control planes of the previous minor, for version skew. The suffix keeps both in one folder.
    Module {
        folder: "kubernetes-1.35",
        path: "k8s.io/kubernetes",
        programs: &[
            program("kubelet-1.35", "cmd/kubelet"),
            program("kube-apiserver-1.35", "cmd/kube-apiserver"),
            program(
                "kube-controller-manager-1.35",
                "cmd/kube-controller-manager",
            ),
            program("kube-scheduler-1.35", "cmd/kube-scheduler"),
        ],
        version: Version::Kubernetes,
        ..MODULE
    },
];

/// The registry refuses the descheduler that the operator requires. Those it serves (v0.35.1, v0.36.0) call functions as of
/// Kubernetes 1.35 or later. The operator compiles with 1.33, where they have no logger, and tolerations no comparison
/// operators to enable.
const DESCHEDULER_EDITS: [Edit; 2] = [
    Edit {
        module: "sigs.k8s.io/descheduler",
        file: "pkg/utils/predicates.go",
        from: "\tlogger := klog.FromContext(ctx)
\tfor i := range tolerations {
\t\tif tolerations[i].ToleratesTaint(logger, taint, true) {",
        to: "\tfor i := range tolerations {
\t\tif tolerations[i].ToleratesTaint(taint) {",
    },
    Edit {
        module: "sigs.k8s.io/descheduler",
        file: "pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint/topologyspreadconstraint.go",
        from: "\tlogger := klog.FromContext(ctx)
\tif tsc.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
\t\tif _, untolerated := v1helper.FindMatchingUntoleratedTaint(
\t\t\tlogger, node.Spec.Taints, tsc.PodTolerations, doNotScheduleTaintsFilterFunc(), true,",
        to: "\tif tsc.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
\t\tif _, untolerated := v1helper.FindMatchingUntoleratedTaint(
\t\t\tnode.Spec.Taints, tsc.PodTolerations, doNotScheduleTaintsFilterFunc(),",
    },
];

/// A folder of `peers/`: a Go module that pins another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    pub(crate) folder: &'static str,
    /// The pinned module.
    pub(crate) path: &'static str,
    pub(crate) programs: &'static [Program],
    /// Build tags, separated by commas.
    pub(crate) tags: &'static str,
    pub(crate) version: Version,
    pub(crate) crds: Option<Crds>,
    /// Folders of the pinned module that programs read from their working directory. They are put beside the programs.
    pub(crate) data: &'static [&'static str],
    /// Changes to source of dependencies that does not compile with what the module requires.
    pub(crate) edits: &'static [Edit],
    /// Files of dependencies that one of the folder takes the place of.
    pub(crate) replacements: &'static [Replacement],
}

const MODULE: Module = Module {
    folder: "",
    path: "",
    programs: &[],
    tags: "",
    version: Version::Unset,
    crds: None,
    data: &[],
    edits: &[],
    replacements: &[],
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// The name in the cache and on the command line.
    pub(crate) name: &'static str,
    /// The package: below the path of the module, or the path of one in another module.
    pub(crate) package: &'static str,
    /// Whether it is a test binary.
    pub(crate) suite: bool,
}

const fn program(name: &'static str, package: &'static str) -> Program {
    Program {
        name,
        package,
        suite: false,
    }
}

const fn suite(name: &'static str, package: &'static str) -> Program {
    Program {
        name,
        package,
        suite: true,
    }
}

/// How a program learns its version, which a release build sets with linker flags.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Version {
    /// It reports none, or the source has it.
    Unset,
    /// A string variable.
    Variable(&'static str),
    /// The variables of `k8s.io/component-base/version` and its copy in client-go. Clients compare them: kubectl warns of
    /// skew, and controllers enable features by it.
    Kubernetes,
}

impl Version {
    /// Linker flags that set the version.
    pub(crate) fn linker_flags(self, version: &str) -> String {
        match self {
            Self::Unset => String::new(),
            Self::Variable(name) => format!(" -X {name}={version}"),
            Self::Kubernetes => {
                let mut parts = version.trim_start_matches('v').split('.');
                let (major, minor) = (
                    parts.next().unwrap_or_default(),
                    parts.next().unwrap_or_default(),
                );
                [
                    "k8s.io/component-base/version",
                    "k8s.io/client-go/pkg/version",
                ]
                .map(|package| {
                    format!(
                        " -X {package}.gitVersion={version} -X {package}.gitMajor={major} \
                             -X {package}.gitMinor={minor} -X {package}.gitTreeState=clean"
                    )
                })
                .concat()
            }
        }
    }
}

/// Where the CustomResourceDefinitions of a module come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Crds {
    /// The package `./crds` of the folder prints them.
    Program,
    /// Files of the pinned module: a folder, and a file name with one `*`.
    Files(&'static str),
    /// The same, of a dependency.
    FilesOf(&'static str, &'static str),
}

/// A changed piece of source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit {
    pub(crate) module: &'static str,
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// A replaced file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replacement {
    pub(crate) module: &'static str,
    pub(crate) file: &'static str,
    /// The file in the folder of `peers/`.
    pub(crate) with: &'static str,
}

impl Replacement {
    /// Changes a copy of the module.
    pub(crate) fn apply(&self, peers: &Path, copy: &Path) -> anyhow::Result<()> {
        let path = peers.join(self.with);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        overwrite(&copy.join(self.file), &text)
    }
}

/// Replaces a file. Files of the module cache are read-only, and so are copies.
fn overwrite(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::remove_file(path)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("editing {}", path.display()))
}

impl Edit {
    /// Changes a copy of the module.
    pub(crate) fn apply(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(self.file);
        let context = || format!("editing {}", path.display());
        let text = fs::read_to_string(&path).with_context(context)?;
        overwrite(&path, &self.edited(&text).with_context(context)?)
    }

    fn edited(&self, text: &str) -> anyhow::Result<String> {
        match text.matches(self.from).count() {
            1 => Ok(text.replace(self.from, self.to)),
            count => bail!("{:?} occurs {count} times", self.from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn program_names_are_unique() {
        let names: Vec<&str> = MODULES
            .iter()
            .flat_map(|module| module.programs)
            .map(|program| program.name)
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn edit_changes_what_occurs_once() {
        let edit = Edit {
            module: "a.io/b",
            file: "b.go",
            from: "f(x, true)",
            to: "f(x)",
        };
        assert_eq!(
            edit.edited("f(x, true)\ng()\n").expect("edited"),
            "f(x)\ng()\n"
        );
        assert!(edit.edited("f(x)\n").is_err());
        assert!(edit.edited("f(x, true)\nf(x, true)\n").is_err());
    }

    #[test]
    fn kubernetes_reports_major_and_minor_version() {
        let flags = Version::Kubernetes.linker_flags("v1.36.3");
        for expected in [
            "k8s.io/component-base/version.gitVersion=v1.36.3",
            "k8s.io/component-base/version.gitMajor=1",
            "k8s.io/client-go/pkg/version.gitMinor=36",
        ] {
            assert!(flags.contains(expected), "{flags}");
        }
    }
}

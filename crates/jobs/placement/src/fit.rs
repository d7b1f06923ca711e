//! Which platforms run all images of a pod, and the node conditions that select them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use platform::{NormalisedPlatform, Platform, Unfit};
use serde::Serialize;

use crate::cluster::{Cluster, NodePlatform, PlatformMatcher, Runtime};
use crate::images::{ImageUse, Inspection, Platforms};
use crate::names;
use crate::nodes::Nodes;
use crate::settings::{RuntimeClass, Settings};

/// The platform requirements of all images of a pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// Each image that contains something to run, its use in the pod, and its platforms.
    images: Vec<(ImageUse, Platforms)>,
}

/// The platforms of one operating system that run all images of a pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fit {
    /// Node conditions that select them; empty if there are none.
    pub(crate) products: Vec<Product>,
    /// Platforms of live nodes that run the images.
    pub(crate) places: Vec<NodePlatform>,
}

/// A set of node conditions, ANDed: one term of a node affinity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Product {
    /// All must hold.
    pub conditions: Vec<Condition>,
}

/// A condition on a node label, serialized as a `NodeSelectorRequirement`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// The label key.
    pub key: &'static str,
    /// The operator.
    pub operator: Operator,
    /// The label values.
    pub values: BTreeSet<String>,
}

/// Operator of a [`Condition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is not set.
    NotIn,
}

impl Condition {
    fn new(key: &'static str, operator: Operator, values: BTreeSet<String>) -> Self {
        Self {
            key,
            operator,
            values,
        }
    }
}

impl Demand {
    /// The requirements of inspected images. An image that cannot be inspected requires the fallback architecture if
    /// one is configured, else nothing.
    pub fn new(
        used: &[ImageUse],
        known: &BTreeMap<String, Inspection>,
        settings: &Settings,
    ) -> Self {
        let fallback = settings.fallback_architecture.as_deref();
        let images = used.iter().filter_map(|used| {
            let platforms = match known.get(&used.image)? {
                Inspection::Platforms(platforms) => platforms.clone(),
                Inspection::Anywhere => return None,
                Inspection::Uninspectable(_) => {
                    let only = Platform::new(&settings.operating_system, fallback?);
                    Platforms::from_iter([only])
                }
            };
            Some((used.clone(), platforms))
        });
        Self {
            images: images.collect(),
        }
    }

    /// Whether no image restricts the platform.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// The images, their uses in the pod and their platforms.
    pub fn images(&self) -> &[(ImageUse, Platforms)] {
        &self.images
    }

    /// The images that do not run on a platform, and why.
    pub fn misfits(
        &self,
        place: &NodePlatform,
        runtime: Runtime,
        class: Option<&RuntimeClass>,
    ) -> Vec<(&ImageUse, Unfit)> {
        let matcher = PlatformMatcher::new(place, runtime, class);
        let judged = self.images.iter().filter_map(|(used, platforms)| {
            let why = matcher.rank(platforms).err()?;
            Some((used, why))
        });
        judged.collect()
    }

    fn runs(&self, place: &NodePlatform, runtime: Runtime, class: Option<&RuntimeClass>) -> bool {
        let matcher = PlatformMatcher::new(place, runtime, class);
        let mut images = self.images.iter();
        images.all(|(_, platforms)| matcher.rank(platforms).is_ok())
    }

    /// Normalized platforms of all images.
    fn meant(&self) -> impl Iterator<Item = &Platform> {
        let platforms = self.images.iter().flat_map(|(_, it)| it.meant());
        platforms.map(NormalisedPlatform::platform)
    }

    /// Whether all images run on every node of a platform that has nodes.
    fn runs_at(
        &self,
        place: &NodePlatform,
        cluster: &Cluster,
        class: Option<&RuntimeClass>,
    ) -> bool {
        // No label tells runtimes apart, so a pod cannot select one of them.
        let mut runtimes = cluster.runtimes_of(place).into_iter();
        runtimes.all(|runtime| self.runs(place, runtime, class))
    }

    /// Operating systems of the images.
    pub(crate) fn systems(&self) -> BTreeSet<String> {
        let systems = self.meant().map(|platform| &platform.os);
        systems.filter(|os| !os.is_empty()).cloned().collect()
    }

    /// The platforms of an operating system that run all images, from the memo if possible.
    pub(crate) fn fit(&self, os: &str, nodes: Nodes<'_>, class: Option<&RuntimeClass>) -> Arc<Fit> {
        // Not memoized: pods with a class are few, and the class would have to be part of the key.
        if class.is_some() {
            return Arc::new(self.find(os, nodes.cluster, class));
        }
        let key = || {
            let platforms = self.images.iter().map(|(_, platforms)| platforms.clone());
            (platforms.collect(), os.to_owned())
        };
        nodes.fit(key, || self.find(os, nodes.cluster, None))
    }

    /// Computes the fit.
    ///
    /// On Linux this includes architectures that no node has yet, so that an autoscaler can add such nodes. Windows
    /// builds are limited to those of live nodes, since the label is a string, and `Gt` and `Lt` of a
    /// node affinity only compare integers.
    fn find(&self, os: &str, cluster: &Cluster, class: Option<&RuntimeClass>) -> Fit {
        if let Some(platform) = class.and_then(|class| class.platform.as_ref()) {
            // The class decides the platform, not the node; its own node selector leads to nodes with the handler.
            let place = NodePlatform {
                os: platform.os.clone(),
                architecture: platform.architecture.clone(),
                ..NodePlatform::default()
            };
            let fits = platform.os == os && self.runs(&place, Runtime::default(), class);
            if !fits {
                return Fit::default();
            }
            // An emulated architecture runs on nodes of any architecture.
            let everywhere = cluster.places().map(|(place, _)| place.clone());
            return Fit {
                products: vec![Product::default()],
                places: everywhere.collect(),
            };
        }
        let present = cluster.places().map(|(place, _)| place);
        let present: Vec<&NodePlatform> = present.filter(|place| place.os == os).collect();
        let mut fitting = present.clone();
        fitting.retain(|place| self.runs_at(place, cluster, class));
        let mut places: BTreeMap<&str, BTreeMap<&NodePlatform, bool>> = BTreeMap::new();
        for place in &present {
            let fits = fitting.contains(place);
            let alike = places.entry(&place.architecture).or_default();
            alike.insert(place, fits);
        }
        // Nodes that do not exist yet are assumed to have containerd, whose rules are the wider ones.
        let possible = self.possible(os);
        for place in possible.iter().filter(|place| !present.contains(place)) {
            let fits = self.runs(place, Runtime::default(), class);
            let alike = places.entry(&place.architecture).or_default();
            alike.insert(place, fits);
        }
        // Architectures with equal further conditions share one term: while a pod is gated, the API server accepts no
        // additional terms.
        let mut shapes: BTreeMap<Vec<Condition>, BTreeSet<String>> = BTreeMap::new();
        for (architecture, places) in places {
            if let Some(rest) = distinguishing_conditions(&places, self.names_builds()) {
                let alike = shapes.entry(rest).or_default();
                alike.insert(architecture.to_owned());
            }
        }
        let products = shapes.into_iter().map(|(rest, architectures)| {
            let mut conditions = vec![
                Condition::new(names::ARCHITECTURE, Operator::In, architectures),
                Condition::new(names::OS, Operator::In, BTreeSet::from([os.to_owned()])),
            ];
            conditions.extend(rest);
            Product { conditions }
        });
        Fit {
            products: products.collect(),
            places: fitting.into_iter().cloned().collect(),
        }
    }

    /// Whether any image names a Windows build.
    fn names_builds(&self) -> bool {
        self.meant().any(|platform| !platform.os_version.is_empty())
    }

    /// Platforms of the images that no node may have yet.
    fn possible(&self, os: &str) -> Vec<NodePlatform> {
        if os == "windows" {
            return Vec::new();
        }
        let architectures: BTreeSet<&String> = self
            .meant()
            .filter(|platform| platform.os == os || platform.os.is_empty())
            .map(|platform| &platform.architecture)
            .filter(|architecture| !architecture.is_empty())
            .collect();
        let places = architectures.into_iter().map(|architecture| NodePlatform {
            os: os.to_owned(),
            architecture: architecture.clone(),
            ..NodePlatform::default()
        });
        places.collect()
    }
}

/// The conditions, beside the architecture, that separate the fitting platforms of an architecture from the others;
/// `None` if none fits.
fn distinguishing_conditions(
    places: &BTreeMap<&NodePlatform, bool>,
    by_build: bool,
) -> Option<Vec<Condition>> {
    let by = |wanted: bool, of: fn(&NodePlatform) -> &String| -> BTreeSet<String> {
        let places = places.iter().filter(|(_, fits)| **fits == wanted);
        places
            .map(|(place, _)| of(place).clone())
            .filter(|value| !value.is_empty())
            .collect()
    };
    if !places.values().any(|fits| *fits) {
        return None;
    }
    let mut conditions = Vec::new();
    let builds = by(true, |place| &place.build);
    // Images without a build run on any, and a list of builds would exclude nodes that are added later.
    if by_build && !builds.is_empty() {
        conditions.push(Condition::new(names::WINDOWS_BUILD, Operator::In, builds));
    }
    let variants = by(false, |place| &place.variant);
    let plain_fits = places
        .iter()
        .all(|(place, fits)| *fits || !place.variant.is_empty() || !place.build.is_empty());
    if !plain_fits {
        // Nodes without a variant label do not fit: require one of the variants known to fit.
        let good = by(true, |place| &place.variant);
        if good.is_empty() {
            return None;
        }
        conditions.push(Condition::new(names::VARIANT, Operator::In, good));
    } else if !variants.is_empty() {
        // `NotIn` also matches nodes without the label, which most are.
        conditions.push(Condition::new(names::VARIANT, Operator::NotIn, variants));
    }
    Some(conditions)
}

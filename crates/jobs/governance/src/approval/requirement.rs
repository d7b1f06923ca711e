//! The approvals that a plan needs: by the ApprovalPolicies that select it, and by the configuration's own policy.
//!
//! Requirements are not merged into one: two approvals by anyone and one by a group are separate requirements, and a
//! plan has to meet both. So no policy can weaken another, and a configuration's own policy can only add to those of
//! the cluster.

use api::advisor::{ApprovalRequirement, Impact, RequiredApprovals, VirtPlatformConfigSpec};
use api::approval::{ApprovalPolicy, ApprovalPolicySpec};
use jiff::{SignedDuration, Timestamp};

use crate::in_flight::{self, Probe};
use crate::timeout::positive;
use crate::window::{State, Windows};

/// Lifetime of an approval unless a policy sets one. Maintenance windows are rarely more than a month apart, and a plan
/// older than that was made for another state of the cluster.
const DEFAULT_LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The source of requirements that the configuration states itself.
pub const OWN: &str = "spec.approvalPolicy";

/// An ApprovalPolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The name of the object.
    pub name: String,
    /// Its specification.
    pub spec: ApprovalPolicySpec,
}

impl From<&ApprovalPolicy> for Policy {
    fn from(object: &ApprovalPolicy) -> Self {
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            spec: object.spec.clone(),
        }
    }
}

impl Policy {
    fn source(&self) -> String {
        format!("ApprovalPolicy {}", self.name)
    }

    /// Whether it selects configurations of this profile.
    pub(crate) fn selects(&self, profile: &str) -> bool {
        self.spec.profiles.is_empty() || self.spec.profiles.iter().any(|name| name == profile)
    }

    fn is_about(&self, impact: Impact) -> bool {
        self.spec.impacts.is_empty() || self.spec.impacts.contains(&impact)
    }
}

/// The policies that select one configuration.
#[derive(Debug, Clone, Default)]
pub struct Floor {
    selected: Vec<Policy>,
    own: RequiredApprovals,
    own_excludes_authors: bool,
}

impl Floor {
    /// Collects the policies that select a configuration.
    pub fn of(policies: &[Policy], spec: &VirtPlatformConfigSpec) -> Self {
        let own = spec.approval_policy.clone().unwrap_or_default();
        Self {
            selected: policies
                .iter()
                .filter(|policy| policy.selects(&spec.profile))
                .cloned()
                .collect(),
            own: own.required_approvals,
            own_excludes_authors: !own.author_may_approve,
        }
    }

    /// The approvals that a plan of this impact needs; empty if it needs none.
    pub fn requirements(&self, impact: Impact) -> Vec<ApprovalRequirement> {
        let policies = self
            .selected
            .iter()
            .filter(|policy| policy.is_about(impact));
        let mut requirements: Vec<_> = policies
            .map(|policy| ApprovalRequirement {
                source: policy.source(),
                approvals: policy.spec.required_approvals,
                groups: policy.spec.groups.clone(),
                authors_excluded: !policy.spec.authors_may_approve,
            })
            .collect();
        requirements.push(ApprovalRequirement {
            source: OWN.to_owned(),
            approvals: needed(&self.own, impact),
            groups: Vec::new(),
            authors_excluded: self.own_excludes_authors,
        });
        // A policy may only set windows or a lifetime, and require no approvals.
        requirements.retain(|requirement| requirement.approvals > 0);
        requirements
    }

    /// Whether takeovers of a plan of this impact need consent one by one, and not only the approval of the plan: any
    /// policy about it asks for more than that.
    pub fn lists_takeovers(&self, impact: Impact) -> bool {
        needed(&self.own, impact) > 0 || self.selected.iter().any(|policy| policy.is_about(impact))
    }

    /// The lifetime of an approval: the shortest of all policies. An unparsable one is an error, because ignoring it
    /// would extend the limit that the policy sets.
    pub fn lifetime(&self) -> Result<SignedDuration, String> {
        let mut shortest = DEFAULT_LIFETIME;
        for policy in &self.selected {
            if let Some(text) = &policy.spec.approvals_expire_after {
                let field = format!("{}: spec.approvalsExpireAfter", policy.source());
                // A policy cannot extend the default either: it would weaken what others rely on.
                shortest = shortest.min(positive(&field, text)?);
            }
        }
        Ok(shortest)
    }

    /// Whether the policies let an item of this impact start now. All policies with windows must have one open;
    /// unparsable windows never open.
    pub fn window(&self, impact: Impact, now: Timestamp) -> State {
        let mut state = State::Unrestricted;
        for policy in self
            .selected
            .iter()
            .filter(|policy| policy.is_about(impact))
        {
            let windows = Windows::parse(&policy.spec.maintenance_windows);
            let this = windows.map_or(State::Closed { next: None }, |windows| windows.state(now));
            state = state.and(this);
        }
        state
    }

    /// What the in-flight gates of the policies for items of this impact depend on.
    pub fn gates(&self, impact: Impact) -> Vec<Probe> {
        let mut probes = Vec::new();
        let selected = self.selected.iter();
        for policy in selected.filter(|policy| policy.is_about(impact)) {
            let gates = policy.spec.in_flight_gates.iter();
            probes.extend(gates.flat_map(|gate| in_flight::probes(&policy.name, gate)));
        }
        probes
    }

    /// The first error in the selected policies; their plans wait until it is fixed.
    pub fn problem(&self) -> Option<String> {
        for policy in &self.selected {
            if let Err(why) = Windows::parse(&policy.spec.maintenance_windows) {
                return Some(format!("{}: {why}", policy.source()));
            }
            for gate in &policy.spec.in_flight_gates {
                let mut probes = in_flight::probes(&policy.name, gate).into_iter();
                // Without a schema: what is wrong with an expression for the installed version of a kind holds the
                // items, and does not block the review.
                if let Some(why) = probes.find_map(|probe| probe.compile(None).err()) {
                    return Some(format!("{}: gate {}: {why}", policy.source(), gate.name));
                }
            }
        }
        self.lifetime().err()
    }
}

/// The number of approvals that the configuration itself requires for an impact.
pub fn needed(required: &RequiredApprovals, impact: Impact) -> u32 {
    match impact {
        Impact::Low => required.low,
        Impact::Medium => required.medium,
        Impact::High => required.high,
    }
}

//! Security contexts, and what each operating system allows in them.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Errors;
use crate::builtin::pod_spec::containers;
use crate::builtin::value::{Read, indexed, is_zero};
use crate::builtin::{check, layout};

/// The context of a pod.
pub(crate) fn check_pod(path: &Path, spec: &Value) -> Errors {
    let context = spec.at("securityContext");
    let mut errors = Errors::new();
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        errors += check::id(&path.child(field), context.int(field));
    }
    for (i, group) in context.items("supplementalGroups").iter().enumerate() {
        errors += check::id(&path.child("supplementalGroups").index(i), group.as_i64());
    }
    if spec.is_true("shareProcessNamespace") && spec.is_true("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    errors += check_sysctls(&path.child("sysctls"), context.items("sysctls"));
    let accepted = ["Always", "OnRootMismatch"];
    errors += check::optional_choice(path, context, "fsGroupChangePolicy", &accepted);
    errors += check::if_set(path, context, "seccompProfile", check_seccomp);
    errors += check::if_set(path, context, "appArmorProfile", check_app_armor);
    let accepted = ["Merge", "Strict"];
    errors += check::optional_choice(path, context, "supplementalGroupsPolicy", &accepted);
    errors
}

/// The context of a container.
pub(crate) fn check_container(path: &Path, context: &Value, host_users: bool) -> Errors {
    let mut errors = Errors::new();
    for field in ["runAsUser", "runAsGroup"] {
        errors += check::id(&path.child(field), context.int(field));
    }
    if let Some(mount) = context.maybe_text("procMount") {
        let path = path.child("procMount");
        errors += check::supported(&path, mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(&path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    errors += check::if_set(path, context, "seccompProfile", check_seccomp);
    if context.at("allowPrivilegeEscalation").as_bool() == Some(false) {
        let mut wrong = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.push(layout::invalid(path, "SecurityContext", context, &detail));
        };
        if context.is_true("privileged") {
            wrong("`privileged` to true");
        }
        for _ in context
            .texts("capabilities.add")
            .iter()
            .filter(|name| **name == "CAP_SYS_ADMIN")
        {
            wrong("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    errors += check::if_set(path, context, "appArmorProfile", check_app_armor);
    errors
}

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn check_seccomp(path: &Path, profile: &Value) -> Errors {
    let mut errors = Errors::new();
    let sort = profile.text("type");
    if sort.is_empty() {
        let detail = "type is required when seccompProfile is set";
        errors.required(&path.child("type"), detail);
    } else {
        errors += check::supported(&path.child("type"), sort, &PROFILES);
    }
    let here = path.child("localhostProfile");
    match profile.maybe_text("localhostProfile") {
        None if sort == "Localhost" => {
            errors.required(&here, "must be set when seccomp type is Localhost");
        }
        Some(file) if sort == "Localhost" => errors += check::descending_path(&here, file),
        Some(_) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(layout::invalid(&here, "SeccompProfile", profile, detail));
        }
        None => {}
    }
    errors
}

fn check_app_armor(path: &Path, profile: &Value) -> Errors {
    let file = profile.maybe_text("localhostProfile");
    let here = path.child("localhostProfile");
    match (profile.text("type"), file) {
        ("Localhost", Some(file)) if file.trim() != file => {
            FieldError::invalid(&here, file, "must not be padded with whitespace").into()
        }
        ("Localhost", None | Some("")) => {
            FieldError::required(&here, "must be set when AppArmor type is Localhost").into()
        }
        ("Localhost", Some(file)) if file.len() > 4095 => FieldError::too_long(&here, 4095).into(),
        ("RuntimeDefault" | "Unconfined", Some(file)) => {
            let detail = "can only be set when AppArmor type is Localhost";
            FieldError::invalid(&here, file, detail).into()
        }
        ("", _) => FieldError::required(
            &path.child("type"),
            "type is required when appArmorProfile is set",
        )
        .into(),
        (sort, _) => check::supported(&path.child("type"), sort, &PROFILES),
    }
}

fn check_sysctls(path: &Path, sysctls: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let mut names = Vec::new();
    for (path, sysctl) in indexed(path, sysctls) {
        let path = path.child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&path, name, detail);
        } else {
            errors += check::unique(&path, name, &mut names);
        }
    }
    errors
}

fn is_sysctl(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            part.starts_with(edge)
                && part.ends_with(edge)
                && part.chars().all(|c| edge(c) || matches!(c, '-' | '_'))
        })
}

/// Processes of the host on Windows: all containers or none, and on the host's network.
pub(crate) fn check_host_process(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let field = "securityContext.windowsOptions.hostProcess";
    let of_pod = spec.at(field).as_bool();
    let (mut all, mut host) = (0, 0);
    for (path, container) in containers(path, spec) {
        all += 1;
        let own = container.at(field).as_bool();
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(&path.child(field), own, detail);
        }
        host += usize::from(own.or(of_pod).unwrap_or_default());
    }
    if host > 0 && host != all {
        let detail = "If pod contains any hostProcess containers then all containers must be \
                      HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if host > 0 && !spec.is_true("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, detail);
    }
    errors
}

/// Fields without meaning on Windows: of the pod's security context, or of the pod itself.
const NOT_ON_WINDOWS: &[&str] = &[
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];

/// Fields of a container's security context without meaning on Windows.
const NOT_IN_WINDOWS_CONTAINERS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Fields that a Windows pod must not have.
pub(crate) fn check_windows(path: &Path, spec: &Value) -> Errors {
    let detail = "cannot be set for a windows pod";
    let mut errors = Errors::new();
    for field in NOT_ON_WINDOWS {
        // Booleans and lists only count when they are not empty.
        let set = match *field {
            "hostPID" | "hostIPC" | "securityContext.sysctls" => !is_zero(spec.at(field)),
            _ => spec.has(field),
        };
        if set {
            errors.forbidden(&path.child(field), detail);
        }
    }
    for (path, container) in containers(path, spec) {
        let path = path.child("securityContext");
        for field in NOT_IN_WINDOWS_CONTAINERS {
            if container.at("securityContext").has(field) {
                errors.forbidden(&path.child(field), detail);
            }
        }
    }
    errors
}

/// Fields that a Linux pod must not have.
pub(crate) fn check_linux(path: &Path, spec: &Value) -> Errors {
    let detail = "windows options cannot be set for a linux pod";
    let field = "securityContext.windowsOptions";
    let mut errors = Errors::new();
    if spec.has(field) {
        errors.forbidden(&path.child(field), detail);
    }
    for (path, container) in containers(path, spec) {
        if container.has(field) {
            errors.forbidden(&path.child(field), detail);
        }
    }
    errors
}

//! The node configuration for swap: activates the dedicated partition, lets kubelets use it, and keeps system services
//! out of it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// The label of the partition, which administrators create.
pub(super) const PARTITION_LABEL: &str = "CNV_SWAP";

/// Activates swap. Runs at every boot, since `swapon` does not persist.
const SCRIPT: &str = r#"#!/usr/bin/env bash
# Turns on the swap partition that carries the label CNV_SWAP.
set -euo pipefail

partition=/dev/disk/by-partlabel/CNV_SWAP
if [[ ! -e "$partition" ]]; then
    echo "no partition is labelled CNV_SWAP" >&2
    exit 1
fi

device=$(readlink -f "$partition")
active=$(swapon --show=NAME --noheadings --raw)
if grep -Fxq "$device" <<<"$active"; then
    echo "swap is already on: $device"
    exit 0
fi

swapon "$device"
echo "swap is on: $device"
"#;

/// Lets kubelets give swap to burstable pods. A KubeletConfig cannot express it: the Machine Config Operator rejects
/// swap settings in one.
const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
memorySwap:
  swapBehavior: LimitedSwap
";

/// Nodes without the partition skip it, else their kubelets would not start.
const PROVISION: &str = "[Unit]
Description=Turn on the swap partition for virtual machines
ConditionFirstBoot=no
ConditionPathExists=/dev/disk/by-partlabel/CNV_SWAP
Wants=systemd-udev-settle.service
After=systemd-udev-settle.service
Before=kubelet-dependencies.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/etc/find-swap-partition

[Install]
RequiredBy=kubelet-dependencies.target
";

/// System services stay in memory, with I/O priority on the disk that holds the swap partition.
const SYSTEM_SLICE: &str = "[Unit]
Description=Keep system services out of swap

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/systemctl set-property --runtime system.slice MemorySwapMax=0 \"IODeviceLatencyTargetSec=/ 50ms\"

[Install]
WantedBy=multi-user.target
";

/// The Ignition configuration.
pub(super) fn ignition() -> Value {
    json!({
        "ignition": { "version": "3.2.0" },
        "storage": { "files": [
            file("/etc/find-swap-partition", 0o755, SCRIPT),
            file("/etc/openshift/kubelet.conf.d/90-swap.conf", 0o644, KUBELET),
        ]},
        "systemd": { "units": [
            { "name": "swap-provision.service", "enabled": true, "contents": PROVISION },
            { "name": "cgroup-system-slice-config.service", "enabled": true, "contents": SYSTEM_SLICE },
        ]},
    })
}

fn file(path: &str, mode: u32, text: &str) -> Value {
    let source = BASE64_STANDARD.encode(text);
    json!({
        "path": path,
        "mode": mode,
        "overwrite": true,
        "contents": { "source": format!("data:text/plain;charset=utf-8;base64,{source}") },
    })
}

//! The fields of the internal types, in their order.
//!
//! `Go[=json]:shape`, the JSON name being left out where it is the Go name in lower case; a JSON name
//! behind `^` is one level further out in the served form. Shapes: `s` text, `i` number, `b` flag,
//! `q` quantity, `n` number or text, `p` anything that can be null, `M` object metadata, `L` label
//! selector, `T` struct, `*T` struct that can be null, `[T` list of structs.

/// Fields of each type; sorted by name.
pub(super) const TYPES: &[(&str, &str)] = &[
    (
        "AWSElasticBlockStoreVolumeSource",
        "VolumeID:s FSType=fsType:s Partition:i ReadOnly:b",
    ),
    (
        "Affinity",
        "NodeAffinity:*NodeAffinity PodAffinity:*PodAffinity PodAntiAffinity:*PodAntiAffinity",
    ),
    ("AppArmorProfile", "Type:s LocalhostProfile:p"),
    (
        "AzureDiskVolumeSource",
        "DiskName:s DataDiskURI=diskURI:s CachingMode:p FSType=fsType:p ReadOnly:p Kind:p",
    ),
    (
        "AzureFilePersistentVolumeSource",
        "SecretName:s ShareName:s ReadOnly:b SecretNamespace:p",
    ),
    (
        "AzureFileVolumeSource",
        "SecretName:s ShareName:s ReadOnly:b",
    ),
    (
        "CSINodeDriver",
        "Name:s NodeID:s TopologyKeys:p Allocatable:*VolumeNodeResources",
    ),
    (
        "CSIPersistentVolumeSource",
        "Driver:s VolumeHandle:s ReadOnly:b FSType=fsType:s VolumeAttributes:p \
         ControllerPublishSecretRef:*SecretReference NodeStageSecretRef:*SecretReference \
         NodePublishSecretRef:*SecretReference ControllerExpandSecretRef:*SecretReference \
         NodeExpandSecretRef:*SecretReference",
    ),
    (
        "CSIVolumeSource",
        "Driver:s ReadOnly:p FSType=fsType:p VolumeAttributes:p \
         NodePublishSecretRef:*LocalObjectReference",
    ),
    ("Capabilities", "Add:p Drop:p"),
    (
        "CephFSPersistentVolumeSource",
        "Monitors:p Path:s User:s SecretFile:s SecretRef:*SecretReference ReadOnly:b",
    ),
    (
        "CephFSVolumeSource",
        "Monitors:p Path:s User:s SecretFile:s SecretRef:*LocalObjectReference ReadOnly:b",
    ),
    (
        "CinderPersistentVolumeSource",
        "VolumeID:s FSType=fsType:s ReadOnly:b SecretRef:*SecretReference",
    ),
    (
        "CinderVolumeSource",
        "VolumeID:s FSType=fsType:s ReadOnly:b SecretRef:*LocalObjectReference",
    ),
    (
        "ClusterTrustBundleProjection",
        "Name:p SignerName:p LabelSelector:L Optional:p Path:s",
    ),
    ("ConfigMapEnvSource", "Name:s Optional:p"),
    ("ConfigMapKeySelector", "Name:s Key:s Optional:p"),
    ("ConfigMapProjection", "Name:s Items:[KeyToPath Optional:p"),
    (
        "ConfigMapVolumeSource",
        "Name:s Items:[KeyToPath DefaultMode:p Optional:p",
    ),
    (
        "Container",
        "Name:s Image:s Command:p Args:p WorkingDir:s Ports:[ContainerPort \
         EnvFrom:[EnvFromSource Env:[EnvVar Resources:ResourceRequirements \
         ResizePolicy:[ContainerResizePolicy RestartPolicy:p \
         RestartPolicyRules:[ContainerRestartRule VolumeMounts:[VolumeMount \
         VolumeDevices:[VolumeDevice LivenessProbe:*Probe ReadinessProbe:*Probe \
         StartupProbe:*Probe Lifecycle:*Lifecycle TerminationMessagePath:s \
         TerminationMessagePolicy:s ImagePullPolicy:s SecurityContext:*SecurityContext Stdin:b \
         StdinOnce:b TTY=tty:b",
    ),
    (
        "ContainerPort",
        "Name:s HostPort:i ContainerPort:i Protocol:s HostIP:s",
    ),
    ("ContainerResizePolicy", "ResourceName:s RestartPolicy:s"),
    (
        "ContainerRestartRule",
        "Action:s ExitCodes:*ContainerRestartRuleOnExitCodes",
    ),
    ("ContainerRestartRuleOnExitCodes", "Operator:s Values:p"),
    (
        "DaemonSetUpdateStrategy",
        "Type:s RollingUpdate:*RollingUpdateDaemonSet",
    ),
    (
        "DeploymentStrategy",
        "Type:s RollingUpdate:*RollingUpdateDeployment",
    ),
    ("DownwardAPIProjection", "Items:[DownwardAPIVolumeFile"),
    (
        "DownwardAPIVolumeFile",
        "Path:s FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector Mode:p",
    ),
    (
        "DownwardAPIVolumeSource",
        "Items:[DownwardAPIVolumeFile DefaultMode:p",
    ),
    ("EmptyDirVolumeSource", "Medium:s SizeLimit:p"),
    (
        "EnvFromSource",
        "Prefix:s ConfigMapRef:*ConfigMapEnvSource SecretRef:*SecretEnvSource",
    ),
    ("EnvVar", "Name:s Value:s ValueFrom:*EnvVarSource"),
    (
        "EnvVarSource",
        "FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector \
         ConfigMapKeyRef:*ConfigMapKeySelector SecretKeyRef:*SecretKeySelector \
         FileKeyRef:*FileKeySelector",
    ),
    (
        "EphemeralContainer",
        "Name:s Image:s Command:p Args:p WorkingDir:s Ports:[ContainerPort \
         EnvFrom:[EnvFromSource Env:[EnvVar Resources:ResourceRequirements \
         ResizePolicy:[ContainerResizePolicy RestartPolicy:p \
         RestartPolicyRules:[ContainerRestartRule VolumeMounts:[VolumeMount \
         VolumeDevices:[VolumeDevice LivenessProbe:*Probe ReadinessProbe:*Probe \
         StartupProbe:*Probe Lifecycle:*Lifecycle TerminationMessagePath:s \
         TerminationMessagePolicy:s ImagePullPolicy:s SecurityContext:*SecurityContext Stdin:b \
         StdinOnce:b TTY=tty:b TargetContainerName:s",
    ),
    (
        "EphemeralVolumeSource",
        "VolumeClaimTemplate:*PersistentVolumeClaimTemplate",
    ),
    ("ExecAction", "Command:p"),
    (
        "FCVolumeSource",
        "TargetWWNs:p Lun:p FSType=fsType:s ReadOnly:b WWIDs=wwids:p",
    ),
    ("FileKeySelector", "VolumeName:s Path:s Key:s Optional:p"),
    (
        "FlexPersistentVolumeSource",
        "Driver:s FSType=fsType:s SecretRef:*SecretReference ReadOnly:b Options:p",
    ),
    (
        "FlexVolumeSource",
        "Driver:s FSType=fsType:s SecretRef:*LocalObjectReference ReadOnly:b Options:p",
    ),
    ("FlockerVolumeSource", "DatasetName:s DatasetUUID:s"),
    (
        "GCEPersistentDiskVolumeSource",
        "PDName=pdName:s FSType=fsType:s Partition:i ReadOnly:b",
    ),
    ("GRPCAction", "Port:i Service:p"),
    ("GitRepoVolumeSource", "Repository:s Revision:s Directory:s"),
    (
        "GlusterfsPersistentVolumeSource",
        "EndpointsName=endpoints:s Path:s ReadOnly:b EndpointsNamespace:p",
    ),
    (
        "GlusterfsVolumeSource",
        "EndpointsName=endpoints:s Path:s ReadOnly:b",
    ),
    ("HPAScalingPolicy", "Type:s Value:i PeriodSeconds:i"),
    (
        "HPAScalingRules",
        "StabilizationWindowSeconds:p SelectPolicy:p Policies:[HPAScalingPolicy Tolerance:p",
    ),
    (
        "HTTPGetAction",
        "Path:s Port:n Host:s Scheme:s HTTPHeaders=httpHeaders:[HTTPHeader",
    ),
    ("HTTPHeader", "Name:s Value:s"),
    (
        "HorizontalPodAutoscalerBehavior",
        "ScaleUp:*HPAScalingRules ScaleDown:*HPAScalingRules",
    ),
    ("HostAlias", "IP=ip:s Hostnames:p"),
    ("HostPathVolumeSource", "Path:s Type:p"),
    (
        "ISCSIPersistentVolumeSource",
        "TargetPortal:s IQN=iqn:s Lun:i ISCSIInterface=iscsiInterface:s FSType=fsType:s \
         ReadOnly:b Portals:p DiscoveryCHAPAuth=chapAuthDiscovery:b \
         SessionCHAPAuth=chapAuthSession:b SecretRef:*SecretReference InitiatorName:p",
    ),
    (
        "ISCSIVolumeSource",
        "TargetPortal:s IQN=iqn:s Lun:i ISCSIInterface=iscsiInterface:s FSType=fsType:s \
         ReadOnly:b Portals:p DiscoveryCHAPAuth=chapAuthDiscovery:b \
         SessionCHAPAuth=chapAuthSession:b SecretRef:*LocalObjectReference InitiatorName:p",
    ),
    ("ImageVolumeSource", "Reference:s PullPolicy:s"),
    ("KeyToPath", "Key:s Path:s Mode:p"),
    (
        "Lifecycle",
        "PostStart:*LifecycleHandler PreStop:*LifecycleHandler StopSignal:p",
    ),
    (
        "LifecycleHandler",
        "Exec:*ExecAction HTTPGet=httpGet:*HTTPGetAction TCPSocket=tcpSocket:*TCPSocketAction \
         Sleep:*SleepAction",
    ),
    ("LocalObjectReference", "Name:s"),
    ("LocalVolumeSource", "Path:s FSType=fsType:p"),
    ("NFSVolumeSource", "Server:s Path:s ReadOnly:b"),
    ("NodeAddress", "Type:s Address:s"),
    (
        "NodeAffinity",
        "RequiredDuringSchedulingIgnoredDuringExecution:*NodeSelector \
         PreferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm",
    ),
    ("NodeSelector", "NodeSelectorTerms:[NodeSelectorTerm"),
    ("NodeSelectorRequirement", "Key:s Operator:s Values:p"),
    (
        "NodeSelectorTerm",
        "MatchExpressions:[NodeSelectorRequirement MatchFields:[NodeSelectorRequirement",
    ),
    ("ObjectFieldSelector", "APIVersion=apiVersion:s FieldPath:s"),
    (
        "ObjectReference",
        "Kind:s Namespace:s Name:s UID=uid:s APIVersion=apiVersion:s ResourceVersion:s \
         FieldPath:s",
    ),
    (
        "PersistentVolumeClaimSpec",
        "AccessModes:p Selector:L Resources:VolumeResourceRequirements VolumeName:s \
         StorageClassName:p VolumeMode:p DataSource:*TypedLocalObjectReference \
         DataSourceRef:*TypedObjectReference VolumeAttributesClassName:p",
    ),
    (
        "PersistentVolumeClaimTemplate",
        "metadata:M Spec:PersistentVolumeClaimSpec",
    ),
    (
        "PersistentVolumeClaimVolumeSource",
        "ClaimName:s ReadOnly:b",
    ),
    (
        "PersistentVolumeSource",
        "GCEPersistentDisk=gcePersistentDisk:*GCEPersistentDiskVolumeSource \
         AWSElasticBlockStore=awsElasticBlockStore:*AWSElasticBlockStoreVolumeSource \
         HostPath:*HostPathVolumeSource Glusterfs:*GlusterfsPersistentVolumeSource \
         NFS=nfs:*NFSVolumeSource RBD=rbd:*RBDPersistentVolumeSource \
         Quobyte:*QuobyteVolumeSource ISCSI=iscsi:*ISCSIPersistentVolumeSource \
         FlexVolume:*FlexPersistentVolumeSource Cinder:*CinderPersistentVolumeSource \
         CephFS=cephfs:*CephFSPersistentVolumeSource FC=fc:*FCVolumeSource \
         Flocker:*FlockerVolumeSource AzureFile:*AzureFilePersistentVolumeSource \
         VsphereVolume:*VsphereVirtualDiskVolumeSource AzureDisk:*AzureDiskVolumeSource \
         PhotonPersistentDisk:*PhotonPersistentDiskVolumeSource \
         PortworxVolume:*PortworxVolumeSource ScaleIO:*ScaleIOPersistentVolumeSource \
         Local:*LocalVolumeSource StorageOS=storageos:*StorageOSPersistentVolumeSource \
         CSI=csi:*CSIPersistentVolumeSource",
    ),
    ("PhotonPersistentDiskVolumeSource", "PdID:s FSType=fsType:s"),
    (
        "PodAffinity",
        "RequiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm \
         PreferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm",
    ),
    (
        "PodAffinityTerm",
        "LabelSelector:L Namespaces:p TopologyKey:s NamespaceSelector:L MatchLabelKeys:p \
         MismatchLabelKeys:p",
    ),
    (
        "PodAntiAffinity",
        "RequiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm \
         PreferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm",
    ),
    (
        "PodCertificateProjection",
        "SignerName:s KeyType:s MaxExpirationSeconds:p CredentialBundlePath:s KeyPath:s \
         CertificateChainPath:s UserAnnotations:p",
    ),
    (
        "PodDNSConfig",
        "Nameservers:p Searches:p Options:[PodDNSConfigOption",
    ),
    ("PodDNSConfigOption", "Name:s Value:p"),
    (
        "PodDisruptionBudgetSpec",
        "MinAvailable:p Selector:L MaxUnavailable:p UnhealthyPodEvictionPolicy:p",
    ),
    ("PodOS", "Name:s"),
    ("PodReadinessGate", "ConditionType:s"),
    (
        "PodResourceClaim",
        "Name:s ResourceClaimName:p ResourceClaimTemplateName:p",
    ),
    ("PodSchedulingGate", "Name:s"),
    ("PodSchedulingGroup", "PodGroupName:p"),
    (
        "PodSecurityContext",
        "HostNetwork=^hostNetwork:b HostPID=^hostPID:b HostIPC=^hostIPC:b \
         ShareProcessNamespace=^shareProcessNamespace:p HostUsers=^hostUsers:p \
         SELinuxOptions=seLinuxOptions:*SELinuxOptions \
         WindowsOptions:*WindowsSecurityContextOptions RunAsUser:p RunAsGroup:p RunAsNonRoot:p \
         SupplementalGroups:p SupplementalGroupsPolicy:p FSGroup=fsGroup:p \
         FSGroupChangePolicy=fsGroupChangePolicy:p Sysctls:[Sysctl \
         SeccompProfile:*SeccompProfile AppArmorProfile:*AppArmorProfile \
         SELinuxChangePolicy=seLinuxChangePolicy:p",
    ),
    (
        "PodSpec",
        "Volumes:[Volume InitContainers:[Container Containers:[Container \
         EphemeralContainers:[EphemeralContainer RestartPolicy:s \
         TerminationGracePeriodSeconds:p ActiveDeadlineSeconds:p DNSPolicy=dnsPolicy:s \
         NodeSelector:p ServiceAccountName:s AutomountServiceAccountToken:p NodeName:s \
         SecurityContext:*PodSecurityContext ImagePullSecrets:[LocalObjectReference Hostname:s \
         Subdomain:s SetHostnameAsFQDN:p Affinity:*Affinity SchedulerName:s \
         Tolerations:[Toleration HostAliases:[HostAlias PriorityClassName:s Priority:p \
         PreemptionPolicy:p DNSConfig=dnsConfig:*PodDNSConfig ReadinessGates:[PodReadinessGate \
         RuntimeClassName:p Overhead:p EnableServiceLinks:p \
         TopologySpreadConstraints:[TopologySpreadConstraint OS=os:*PodOS \
         SchedulingGates:[PodSchedulingGate ResourceClaims:[PodResourceClaim \
         Resources:*ResourceRequirements HostnameOverride:p SchedulingGroup:*PodSchedulingGroup",
    ),
    ("PodTemplateSpec", "metadata:M Spec:PodSpec"),
    (
        "PortworxVolumeSource",
        "VolumeID:s FSType=fsType:s ReadOnly:b",
    ),
    (
        "PreferredSchedulingTerm",
        "Weight:i Preference:NodeSelectorTerm",
    ),
    (
        "Probe",
        "Exec:*ExecAction HTTPGet=httpGet:*HTTPGetAction TCPSocket=tcpSocket:*TCPSocketAction \
         GRPC=grpc:*GRPCAction InitialDelaySeconds:i TimeoutSeconds:i PeriodSeconds:i \
         SuccessThreshold:i FailureThreshold:i TerminationGracePeriodSeconds:p",
    ),
    (
        "ProjectedVolumeSource",
        "Sources:[VolumeProjection DefaultMode:p",
    ),
    (
        "QuobyteVolumeSource",
        "Registry:s Volume:s ReadOnly:b User:s Group:s Tenant:s",
    ),
    (
        "RBDPersistentVolumeSource",
        "CephMonitors=monitors:p RBDImage=image:s FSType=fsType:s RBDPool=pool:s \
         RadosUser=user:s Keyring:s SecretRef:*SecretReference ReadOnly:b",
    ),
    (
        "RBDVolumeSource",
        "CephMonitors=monitors:p RBDImage=image:s FSType=fsType:s RBDPool=pool:s \
         RadosUser=user:s Keyring:s SecretRef:*LocalObjectReference ReadOnly:b",
    ),
    ("ResourceClaim", "Name:s Request:s"),
    (
        "ResourceFieldSelector",
        "ContainerName:s Resource:s Divisor:q",
    ),
    (
        "ResourceRequirements",
        "Limits:p Requests:p Claims:[ResourceClaim",
    ),
    ("RoleRef", "APIGroup=apiGroup:s Kind:s Name:s"),
    ("RollingUpdateDaemonSet", "MaxUnavailable:n MaxSurge:n"),
    ("RollingUpdateDeployment", "MaxUnavailable:n MaxSurge:n"),
    (
        "RollingUpdateStatefulSetStrategy",
        "Partition:i MaxUnavailable:p",
    ),
    ("SELinuxOptions", "User:s Role:s Type:s Level:s"),
    (
        "ScaleIOPersistentVolumeSource",
        "Gateway:s System:s SecretRef:*SecretReference SSLEnabled=sslEnabled:b \
         ProtectionDomain:s StoragePool:s StorageMode:s VolumeName:s FSType=fsType:s ReadOnly:b",
    ),
    (
        "ScaleIOVolumeSource",
        "Gateway:s System:s SecretRef:*LocalObjectReference SSLEnabled=sslEnabled:b \
         ProtectionDomain:s StoragePool:s StorageMode:s VolumeName:s FSType=fsType:s ReadOnly:b",
    ),
    ("SeccompProfile", "Type:s LocalhostProfile:p"),
    ("SecretEnvSource", "Name:s Optional:p"),
    ("SecretKeySelector", "Name:s Key:s Optional:p"),
    ("SecretProjection", "Name:s Items:[KeyToPath Optional:p"),
    ("SecretReference", "Name:s Namespace:s"),
    (
        "SecretVolumeSource",
        "SecretName:s Items:[KeyToPath DefaultMode:p Optional:p",
    ),
    (
        "SecurityContext",
        "Capabilities:*Capabilities Privileged:p SELinuxOptions=seLinuxOptions:*SELinuxOptions \
         WindowsOptions:*WindowsSecurityContextOptions RunAsUser:p RunAsGroup:p RunAsNonRoot:p \
         ReadOnlyRootFilesystem:p AllowPrivilegeEscalation:p ProcMount:p \
         SeccompProfile:*SeccompProfile AppArmorProfile:*AppArmorProfile",
    ),
    (
        "ServiceAccountTokenProjection",
        "Audience:s ExpirationSeconds:i Path:s",
    ),
    (
        "ServicePort",
        "Name:s Protocol:s AppProtocol:p Port:i TargetPort:n NodePort:i",
    ),
    ("SleepAction", "Seconds:i"),
    (
        "StatefulSetUpdateStrategy",
        "Type:s RollingUpdate:*RollingUpdateStatefulSetStrategy",
    ),
    (
        "StorageOSPersistentVolumeSource",
        "VolumeName:s VolumeNamespace:s FSType=fsType:s ReadOnly:b SecretRef:*ObjectReference",
    ),
    (
        "StorageOSVolumeSource",
        "VolumeName:s VolumeNamespace:s FSType=fsType:s ReadOnly:b \
         SecretRef:*LocalObjectReference",
    ),
    ("Sysctl", "Name:s Value:s"),
    ("TCPSocketAction", "Port:n Host:s"),
    ("Taint", "Key:s Value:s Effect:s TimeAdded:p"),
    (
        "Toleration",
        "Key:s Operator:s Value:s Effect:s TolerationSeconds:p",
    ),
    (
        "TopologySpreadConstraint",
        "MaxSkew:i TopologyKey:s WhenUnsatisfiable:s LabelSelector:L MinDomains:p \
         NodeAffinityPolicy:p NodeTaintsPolicy:p MatchLabelKeys:p",
    ),
    (
        "TypedLocalObjectReference",
        "APIGroup=apiGroup:p Kind:s Name:s",
    ),
    (
        "TypedObjectReference",
        "APIGroup=apiGroup:p Kind:s Name:s Namespace:p",
    ),
    (
        "Volume",
        "Name:s HostPath:*HostPathVolumeSource EmptyDir:*EmptyDirVolumeSource \
         GCEPersistentDisk=gcePersistentDisk:*GCEPersistentDiskVolumeSource \
         AWSElasticBlockStore=awsElasticBlockStore:*AWSElasticBlockStoreVolumeSource \
         GitRepo:*GitRepoVolumeSource Secret:*SecretVolumeSource NFS=nfs:*NFSVolumeSource \
         ISCSI=iscsi:*ISCSIVolumeSource Glusterfs:*GlusterfsVolumeSource \
         PersistentVolumeClaim:*PersistentVolumeClaimVolumeSource RBD=rbd:*RBDVolumeSource \
         Quobyte:*QuobyteVolumeSource FlexVolume:*FlexVolumeSource Cinder:*CinderVolumeSource \
         CephFS=cephfs:*CephFSVolumeSource Flocker:*FlockerVolumeSource \
         DownwardAPI:*DownwardAPIVolumeSource FC=fc:*FCVolumeSource \
         AzureFile:*AzureFileVolumeSource ConfigMap:*ConfigMapVolumeSource \
         VsphereVolume:*VsphereVirtualDiskVolumeSource AzureDisk:*AzureDiskVolumeSource \
         PhotonPersistentDisk:*PhotonPersistentDiskVolumeSource \
         Projected:*ProjectedVolumeSource PortworxVolume:*PortworxVolumeSource \
         ScaleIO:*ScaleIOVolumeSource StorageOS=storageos:*StorageOSVolumeSource \
         CSI=csi:*CSIVolumeSource Ephemeral:*EphemeralVolumeSource Image:*ImageVolumeSource",
    ),
    ("VolumeDevice", "Name:s DevicePath:s"),
    (
        "VolumeMount",
        "Name:s ReadOnly:b RecursiveReadOnly:p MountPath:s SubPath:s MountPropagation:p \
         SubPathExpr:s",
    ),
    ("VolumeNodeResources", "Count:p"),
    (
        "VolumeProjection",
        "Secret:*SecretProjection DownwardAPI:*DownwardAPIProjection \
         ConfigMap:*ConfigMapProjection ServiceAccountToken:*ServiceAccountTokenProjection \
         ClusterTrustBundle:*ClusterTrustBundleProjection \
         PodCertificate:*PodCertificateProjection",
    ),
    ("VolumeResourceRequirements", "Limits:p Requests:p"),
    (
        "VsphereVirtualDiskVolumeSource",
        "VolumePath:s FSType=fsType:s StoragePolicyName:s StoragePolicyID:s",
    ),
    (
        "WeightedPodAffinityTerm",
        "Weight:i PodAffinityTerm:PodAffinityTerm",
    ),
    (
        "WindowsSecurityContextOptions",
        "GMSACredentialSpecName=gmsaCredentialSpecName:p \
         GMSACredentialSpec=gmsaCredentialSpec:p RunAsUserName:p HostProcess:p",
    ),
];

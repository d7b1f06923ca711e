// The program crds prints the CustomResourceDefinitions of KubeVirt, as virt-operator installs them.
package main

import (
	"fmt"
	"os"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"sigs.k8s.io/yaml"
)

func main() {
	for _, generate := range []func() (*extv1.CustomResourceDefinition, error){
		components.NewKubeVirtCrd,
		components.NewMigrationPolicyCrd,
		components.NewPresetCrd,
		components.NewReplicaSetCrd,
		components.NewVirtualMachineCloneCrd,
		components.NewVirtualMachineClusterInstancetypeCrd,
		components.NewVirtualMachineClusterPreferenceCrd,
		components.NewVirtualMachineCrd,
		components.NewVirtualMachineExportCrd,
		components.NewVirtualMachineInstanceCrd,
		components.NewVirtualMachineInstanceMigrationCrd,
		components.NewVirtualMachineInstancetypeCrd,
		components.NewVirtualMachinePoolCrd,
		components.NewVirtualMachinePreferenceCrd,
		components.NewVirtualMachineRestoreCrd,
		components.NewVirtualMachineSnapshotContentCrd,
		components.NewVirtualMachineSnapshotCrd,
	} {
		crd, err := generate()
		if err == nil {
			var text []byte
			text, err = yaml.Marshal(crd)
			fmt.Printf("---\n%s", text)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "generating a CustomResourceDefinition:", err)
			os.Exit(1)
		}
	}
}

// The program crds prints the CustomResourceDefinitions of CDI, as cdi-operator installs them.
package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubevirt.io/containerized-data-importer/pkg/operator/resources"
)

func main() {
	for _, name := range slices.Sorted(maps.Keys(resources.CDICRDs)) {
		fmt.Printf("---\n%s\n", strings.Trim(resources.CDICRDs[name], "\n-"))
	}
}

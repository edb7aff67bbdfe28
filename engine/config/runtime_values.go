package config

import (
	"slices"
	"strings"

	"aicplan/engine/stage"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// mostWorkers limits the workers per device. Each worker is a process with a framework.
const mostWorkers = 1024

// unusable reports values of a runtime's shared attributes that are invalid on every machine, so
// that they fail at load time and not during a run.
func unusable(b *stage.Runtime, body *hclsyntax.Body, secret map[string]string) (diags hcl.Diagnostics) {
	bad := func(name, summary, format string, args ...any) {
		if a, ok := body.Attributes[name]; ok {
			diags = append(diags, errorAt(a.Expr.Range(), summary, format, args...)...)
		}
	}

	if b.Devices != nil && len(b.Devices) == 0 {
		bad("devices", "No devices", "The list is empty. Without the attribute, the runtime uses all visible GPUs.")
	}

	for i, d := range b.Devices {
		if d < 0 || slices.Contains(b.Devices[:i], d) {
			bad("devices", "Unsuitable devices",
				"Indices of GPUs are different numbers from 0, in PCI bus order; %d is not one, or it is repeated.", d)
		}
	}

	if b.Workers < 0 || b.Workers > mostWorkers {
		bad("workers", "Unsuitable number of workers", "It is %d; a device has from 1 to %d workers.", b.Workers,
			mostWorkers)
	}
	for _, name := range slices.Concat(sortedKeys(b.Env), sortedKeys(secret)) {
		if name == "" || strings.Contains(name, "=") {
			bad("env", "Unsuitable variable", "%q cannot be the name of an environment variable.", name)
		}
	}

	return diags
}

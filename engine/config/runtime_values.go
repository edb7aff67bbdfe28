package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// mostWorkers limits the workers per device. Each worker is a process with a framework.
const mostWorkers = 1024

// unusable reports values of a runtime's shared attributes that are invalid on every machine, so
// that they fail at load time and not during a run.
func (b *runtimeBody) unusable(body *hclsyntax.Body, secret map[string]string) (diags hcl.Diagnostics) {
	bad := func(name, summary, format string, args ...any) {
		if a, ok := body.Attributes[name]; ok {
			diags = append(diags, errorAt(a.Expr.Range(), summary, fmt.Sprintf(format, args...)))
		}
	}

	if b.Devices != nil && len(b.Devices) == 0 {
		bad("devices", "No devices",
			"An empty list leaves the runtime nothing to work on; leave devices away for all that are visible.")
	}

	for i, d := range b.Devices {
		if d < 0 {
			bad("devices", "Unsuitable devices", "%d is no index of a GPU; they are counted from 0, in PCI bus order.",
				d)
		} else if slices.Contains(b.Devices[:i], d) {
			bad("devices", "Unsuitable devices", "GPU %d is there twice; workers says how many workers share a device.",
				d)
		}
	}

	if b.Workers < 0 || b.Workers > mostWorkers {
		bad("workers", "Unsuitable number of workers", "It is %d; a device has from 1 to %d workers.", b.Workers,
			mostWorkers)
	}
	if len(b.Launcher) > 0 && b.Launcher[0] == "" {
		bad("launcher", "No launcher",
			"Its first element is empty; it is the program that starts workers, such as \"docker\".")
	}

	for _, name := range slices.Concat(sortedKeys(b.Env), sortedKeys(secret)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			bad("env", "Unsuitable variable",
				"%q cannot be the name of an environment variable: one is not empty, and has no = and no byte 0 in it.",
				name)
		} else if strings.ContainsRune(b.Env[name], 0) {
			bad("env", "Unsuitable variable", "The value of %s has a byte 0, which no environment variable can have.",
				name)
		}
	}

	return diags
}

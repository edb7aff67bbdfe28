// Package systems holds the GPU system specs in aiconfigurator's YAML format
// and reads, validates and probes them.
package systems

// Spec is one system: <name>.yaml.
type Spec struct {
	Name string `yaml:"-"`
}

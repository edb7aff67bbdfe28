package collect

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// readKernel brings the source of a user's own CUDA kernel into the binding,
// from its file below the plan's folder: what the kernel does is part of what
// its rows mean. Bindings that name no file stay as they are.
func (c *Config) readKernel(planDir string) error {
	if c.runtime == nil || c.runtime.Kind != "cuda" {
		return nil
	}
	bind, ok := c.bind.(map[string]any)
	if !ok {
		return nil
	}
	name, ok := bind["file"].(string)
	if !ok {
		return nil
	}
	if !filepath.IsLocal(name) {
		return fmt.Errorf("bind.file is %q: kernels are read from the plan's folder; write a path relative to it", name)
	}
	src, err := os.ReadFile(filepath.Join(planDir, name))
	if err != nil {
		return fmt.Errorf("bind.file: %w", err)
	}
	with := maps.Clone(bind)
	delete(with, "file")
	with["source"] = string(src)
	if _, named := with["name"]; !named {
		with["name"] = name
	}
	c.bind = with
	return nil
}

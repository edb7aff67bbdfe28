package config

import (
	"fmt"
	"strings"
)

// LocalAddress is an address without the modules that it lies in:
// module.a["x"].grid.gemm is grid.gemm.
func LocalAddress(address string) string {
	for strings.HasPrefix(address, "module.") {
		depth := false
		dots := 0
		i := 0
		for ; i < len(address); i++ {
			switch c := address[i]; {
			case c == '"':
				depth = !depth
			case c == '.' && !depth:
				dots++
			}
			if dots == 2 {
				break
			}
		}
		if dots < 2 {
			return address
		}
		address = address[i+1:]
	}
	return address
}

// Find returns the instance that address names: in full, or without its
// modules where that is the only one of that name.
func (c *Config) Find(address string) (*Instance, error) {
	if in := c.byAddr[address]; in != nil {
		return in, nil
	}
	var found []*Instance
	var near []string
	for _, in := range c.Instances {
		local := LocalAddress(in.Address)
		if local == address {
			found = append(found, in)
		}
		near = append(near, local)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("the plan has no stage %s.%s aicplan describe lists them", address, DidYouMean(address, near))
	}
	var names []string
	for _, in := range found {
		names = append(names, in.Address)
	}
	return nil, fmt.Errorf("%s could be any of %s: give the whole address", address, strings.Join(names, ", "))
}

package config

import (
	"fmt"
	"strconv"
	"strings"
)

// An address consists of names and keys: module.a["x"].collect.gemm["fp8"]. Keys are quoted like Go
// strings, so they may contain dots, brackets and quotes.

// keyAt returns the length of the key in brackets at the start of address, or 0 if there is none.
func keyAt(address string) int {
	if !strings.HasPrefix(address, `["`) {
		return 0
	}
	quoted, err := strconv.QuotedPrefix(address[1:])
	if err != nil || !strings.HasPrefix(address[1+len(quoted):], "]") {
		return 0
	}

	return len(quoted) + 2
}

// cutModule splits the outermost module off an address. If there is none, ok is false and rest is
// the whole address.
func cutModule(address string) (module, rest string, ok bool) {
	const head = "module."
	if !strings.HasPrefix(address, head) {
		return "", address, false
	}

	end := strings.IndexAny(address[len(head):], ".[")
	if end < 0 {
		return "", address, false
	}

	end += len(head)
	end += keyAt(address[end:])
	if !strings.HasPrefix(address[end:], ".") {
		return "", address, false
	}

	return address[:end], address[end+1:], true
}

// LocalAddress returns an address without its modules: module.a["x"].grid.gemm becomes grid.gemm.
func LocalAddress(address string) string {
	for {
		_, rest, ok := cutModule(address)
		if !ok {
			return address
		}
		address = rest
	}
}

// ModulesOf returns the addresses of the modules that contain an address, outermost first.
func ModulesOf(address string) []string {
	var out []string
	for rest, end := address, 0; ; {
		module, inner, ok := cutModule(rest)
		if !ok {
			return out
		}
		out = append(out, address[:end+len(module)])
		rest, end = inner, end+len(module)+1
	}
}

// WithoutOwnKey returns an address without the key of the instance itself. Keys of its modules are
// kept.
func WithoutOwnKey(address string) string {
	for i := 0; i < len(address); i++ {
		n := keyAt(address[i:])
		if n > 0 && i+n == len(address) {
			return address[:i]
		}
		i += max(n-1, 0)
	}
	return address
}

// WithoutKeys returns an address without any keys, that is, the address of the block as written.
func WithoutKeys(address string) string {
	var b strings.Builder
	for i := 0; i < len(address); {
		if n := keyAt(address[i:]); n > 0 {
			i += n
			continue
		}
		b.WriteByte(address[i])
		i++
	}

	return b.String()
}

// Find returns the instance with the given address. The modules may be omitted if only one instance
// has that local address.
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
		return nil, fmt.Errorf("the plan has no stage %s.%s aicplan describe lists them", address,
			DidYouMean(address, near))
	}

	var names []string
	for _, in := range found {
		names = append(names, in.Address)
	}

	return nil, fmt.Errorf("%s could be any of %s: give the whole address", address, strings.Join(names, ", "))
}

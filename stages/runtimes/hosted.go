package runtimes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// Hosted is an op that a python runtime runs from its collector_root.
type Hosted struct {
	Op string
	// Modules contains the module of the op, or all modules that its versions select from.
	Modules []string
}

// HostedOp reads the binding of a collect block. It returns false if the op is not a collector.
func HostedOp(op string, bind any) (Hosted, bool) {
	b, ok := bind.(map[string]any)
	if !ok {
		return Hosted{}, false
	}

	if _, ok := b["run"]; !ok {
		return Hosted{}, false
	}

	h := Hosted{Op: op}
	if m, ok := b["module"].(string); ok {
		h.Modules = append(h.Modules, m)
	}

	routes, _ := b["versions"].([]any)
	for _, r := range routes {
		route, _ := r.(map[string]any)
		if m, ok := route["module"].(string); ok {
			h.Modules = append(h.Modules, m)
		}
	}

	return h, true
}

// file returns the path of a module relative to a checkout.
func (h Hosted) file(module string) string {
	return filepath.Join(strings.Split(module, ".")...) + ".py"
}

// missing returns the first file that the checkout at root lacks, or "" if one of the modules exists.
func (h Hosted) missing(root string) string {
	first := ""
	for _, m := range h.Modules {
		if isFile(filepath.Join(root, h.file(m))) {
			return ""
		}
		if first == "" {
			first = h.file(m)
		}
	}

	return first
}

// Use records that the plan runs cases on rt and, if hosted is not nil, that it uses this collector.
// Absent and Checkout depend on it.
func (p *Pools) Use(rt *stage.Runtime, hosted *Hosted) {
	p.mu.Lock()
	defer p.mu.Unlock()

	u := p.used[rt.Address]
	if u == nil {
		u = &use{runtime: rt}
		p.used[rt.Address] = u
	}

	if hosted != nil && !slices.ContainsFunc(u.hosted, func(h Hosted) bool { return h.Op == hosted.Op }) {
		u.hosted = append(u.hosted, *hosted)
	}
}

// use is how the plan uses a runtime.
type use struct {
	runtime *stage.Runtime
	hosted  []Hosted
}

// Checkout verifies that the plan's collectors exist in the collector_root of rt. It returns a
// description of what was found, or "" if the plan has none. The error is a *Missing.
func (p *Pools) Checkout(rt *stage.Runtime) (string, error) {
	p.mu.Lock()
	var hosted []Hosted
	if u := p.used[rt.Address]; u != nil {
		hosted = slices.Clone(u.hosted)
	}

	p.mu.Unlock()
	if len(hosted) == 0 {
		return "", nil
	}
	lacking, err := CheckoutLacks(rt, hosted...)
	if err != nil {
		return "", err
	}
	if len(rt.Launcher) > 0 {
		return "collectors are looked for where the workers run", nil
	}

	text := fmt.Sprintf("%d collectors in %s", len(hosted)-len(lacking), checkoutRoot(rt))
	if len(lacking) > 0 {
		text += "; not there: " + textutil.First(lacking, 3, ", ")
	}

	return text, nil
}

// CheckoutLacks returns the collectors that the checkout of rt lacks. The error is a *Missing if rt has no checkout
// or if the checkout has none of them. With a launcher, only the workers can look into the checkout, so it is not
// checked.
func CheckoutLacks(rt *stage.Runtime, hosted ...Hosted) (lacking []string, err error) {
	var ops []string
	for _, h := range hosted {
		ops = append(ops, h.Op)
	}

	if rt.CollectorRoot == "" {
		return nil, missing("set collector_root of the runtime to the checkout's folder; the plans of this project take it "+
			"as --var collector_root=DIR", "%s has no collector_root, and a checkout of aiconfigurator has the collectors of %s",
			rt.Address, textutil.First(ops, 3, ", "))
	}

	if len(rt.Launcher) > 0 {
		return nil, nil
	}

	root := checkoutRoot(rt)
	wrong := func(what string) ([]string, error) {
		fix := "give collector_root the folder that contains aiconfigurator's folder collector"
		if !filepath.IsAbs(rt.CollectorRoot) {
			fix += "; a relative path starts at the plan's folder"
		}
		return nil, missing(fix, "collector_root of %s is %s, which %s", rt.Address, root, what)
	}

	first := ""
	for _, h := range hosted {
		if f := h.missing(root); f != "" {
			first = cmp.Or(first, f)
			lacking = append(lacking, fmt.Sprintf("%s (%s)", h.Op, f))
		}
	}
	switch {
	case len(lacking) < len(hosted):
		return lacking, nil
	case !isDir(filepath.Join(root, "collector")):
		return wrong("is no checkout of aiconfigurator: it has no folder collector")
	}
	return wrong(fmt.Sprintf("has no %s for %s: another version of the checkout, or of the plan, is needed", first,
		textutil.First(ops, 3, ", ")))
}

func checkoutRoot(rt *stage.Runtime) string {
	return absolute(declaredIn(rt, ""), rt.CollectorRoot)
}

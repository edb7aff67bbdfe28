package stages_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages"
	"aicplan/stages/collect"
	"aicplan/stages/gate"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

var update = flag.Bool("update", false, "write the table anew")

// TestIdentityTable changes every attribute of every block one by one and says
// what follows: "key" when the stage's checkpoint is stale, "journal" when cases
// are measured again, "-" when neither is, with the reason that the kind gives.
// The table in testdata/identity.txt is what was decided; an attribute that is
// new, or that changes sides, must be decided about there (-update).
func TestIdentityTable(t *testing.T) {
	set := stages.All()
	defer set.Close() //nolint:errcheck // no workers
	var lines []string

	kinds := set.Kinds
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		switch {
		case name == "grid":
			lines = append(lines, "grid: its cases, their order, columns, table, op and constants, however they are written")
			continue

		case k.Class == stage.Guard:
			lines = append(lines, name+": never reused")
			continue

		case name == "gate":
			lines = append(lines, gateLines(t)...)
			continue
		}

		lines = append(lines, fieldLines(t, k, reflect.TypeOf(k.New()).Elem(), name, nil)...)
	}

	for _, rk := range set.Runtimes() {
		lines = append(lines, runtimeLines(t, kinds["collect"], rk)...)
	}

	// Modules have no key of their own; cmd/aicplan holds this by a script.
	lines = append(lines,
		"module.source: - (its stages count by what they evaluate to, wherever the module lies)",
		"module's files, variables, locals: key (of the stages whose values they change)",
		"module.for_each: - (it is part of the addresses of the stages)")

	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/identity.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}

	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("what identifies data changed; decide, then go test ./stages -update (- was, + is):\n%s", d)
	}

	t.Log("\n" + got)
}

// fieldLines has a line for every attribute below a struct; path leads to it
// from the config.
func fieldLines(t *testing.T, k stage.Kind, typ reflect.Type, name string, path []int) []string {
	var out []string
	for i := range typ.NumField() {
		tag, ok := typ.Field(i).Tag.Lookup("hcl")
		if !ok {
			continue
		}

		attr, kind, _ := strings.Cut(tag, ",")
		at := append(slices.Clone(path), i)
		switch kind {
		case "remain", "def_range", "body":
			continue
		case "block":
			inner := typ.Field(i).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			out = append(out, fieldLines(t, k, inner, name+"."+attr, at)...)
			continue
		}

		out = append(out, line(name+"."+attr, k, configured(t, k, at, 1), configured(t, k, at, 2)))
	}

	return out
}

// line compares two stages.
func line(what string, k stage.Kind, a, b stage.Stage) string {
	var follows []string
	if !same(stage.Identity(k, a), stage.Identity(k, b)) {
		follows = append(follows, "key")
	}

	if ca, ok := a.(*collect.Config); ok {
		if !same(contextOf(ca, nil), contextOf(b.(*collect.Config), nil)) {
			follows = append(follows, "journal")
		}
	}

	if len(follows) > 0 {
		return what + ": " + strings.Join(follows, ", ")
	}

	why := ""
	for at, reason := range k.Beside {
		if full := k.Name + "." + at; what == full || strings.HasPrefix(what, full+".") {
			why = reason
		}
	}

	if why == "" {
		why = "NO REASON GIVEN"
	}

	return what + ": - (" + why + ")"
}

func same(a, b any) bool {
	ka, _, err1 := checkpoint.Key(a)
	kb, _, err2 := checkpoint.Key(b)
	if err1 != nil || err2 != nil {
		panic(fmt.Sprint(err1, err2))
	}
	return ka == kb
}

var seen = runtimes.Environment{Framework: "F", Version: "1", Device: "D",
	Env: map[string]string{"x1": "1", "x2": "2", "python": "3.11.7"}}

func contextOf(c *collect.Config, constants []grid.Constant) checkpoint.Context {
	return c.Context(&grid.Spec{Op: "op", Constants: constants}, &seen)
}

// configured is a stage with the field at path set to the nth of two values. All
// other fields are at their defaults, references set.
func configured(t *testing.T, k stage.Kind, path []int, n int) stage.Stage {
	t.Helper()
	st := k.New()
	v := reflect.ValueOf(st).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Type == reflect.TypeFor[cty.Value]() {
			tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
			if tag == "grid" || tag == "runtime" || tag == "input" || tag == "inputs" || tag == "exports" || tag == "collect" {
				v.Field(i).Set(reflect.ValueOf(reference(t, tag, 1)))
			}
		}
	}

	for at, i := range path {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		v = v.Field(i)
		if at < len(path)-1 {
			switch v.Kind() {
			case reflect.Pointer:
				v.Set(reflect.New(v.Type().Elem()))
				v = v.Elem()
			case reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				v = v.Index(0)
			}

			continue
		}

		set(t, v, name, n)
	}

	// Values that the kind refuses count all the same: what is wrong with them is
	// another matter.
	st.Check(&stage.CheckContext{})
	return st
}

// set gives a field the nth of two values of its type.
func set(t *testing.T, v reflect.Value, name string, n int) {
	t.Helper()

	if v.Type() == reflect.TypeFor[cty.Value]() {
		v.Set(reflect.ValueOf(reference(t, name, n)))
		return
	}

	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(t, v.Elem(), name, n)
	case reflect.String:
		v.SetString(fmt.Sprintf("x%d", n))
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n) / 4)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(t, v.Index(0), name, n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"K": fmt.Sprintf("x%d", n)}))
	default:
		t.Fatalf("%s is a %s; teach the table about it", name, v.Type())
	}
}

// reference is what an attribute of that name refers to.
func reference(t *testing.T, name string, n int) cty.Value {
	t.Helper()
	ref := func(kind string) cty.Value {
		r := &stage.Ref{Address: fmt.Sprintf("%s.x%d", kind, n), Kind: kind}
		return cty.ObjectVal(map[string]cty.Value{"address": cty.StringVal(r.Address),
			"ref": cty.CapsuleVal(stage.RefType, r)})
	}
	switch name {
	case "runtime":
		rt := &stage.Runtime{Name: "x", Kind: "python", Address: fmt.Sprintf("runtime.x%d", n)}
		return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RuntimeType, rt)})

	case "system":
		spec, err := systems.Load([]string{"", "h200_sxm", "b200_sxm"}[n])
		if err != nil {
			t.Fatal(err)
		}
		return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.SystemType, spec)})

	case "bind":
		return cty.ObjectVal(map[string]cty.Value{"function": cty.StringVal(fmt.Sprintf("f%d", n))})

	case "grid", "collect":
		return ref(name)
	}

	return ref("gate")
}

// gateLines are about the checks, each attribute for itself.
func gateLines(t *testing.T) []string {
	out := []string{}
	defaults := gate.Defaults()
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		typ := reflect.TypeOf(defaults[name]).Elem()
		for i := range typ.NumField() {
			tag, ok := typ.Field(i).Tag.Lookup("hcl")
			if !ok || typ.Field(i).Type == reflect.TypeFor[hcl.Expression]() {
				continue // a condition counts by its text; gate's TestFingerprint is about it
			}

			attr, _, _ := strings.Cut(tag, ",")
			values := func(n int) any {
				v := reflect.New(typ)
				set(t, v.Elem().Field(i), attr, n)
				return stage.Fields(v.Interface())
			}

			follows := "key"
			if same(values(1), values(2)) {
				follows = "-"
			}

			out = append(out, fmt.Sprintf("gate.check %s.%s: %s", name, attr, follows))
		}
	}

	return out
}

// runtimeLines are about the attributes and options of a runtime that a collect
// measures on.
func runtimeLines(t *testing.T, k stage.Kind, rk stage.RuntimeKind) []string {
	on := func(change func(*stage.Runtime)) *collect.Config {
		rt := &stage.Runtime{Name: "x", Kind: rk.Name, Address: "runtime.x", Options: map[string]cty.Value{}}
		change(rt)
		c := k.New().(*collect.Config)
		c.Grid = reference(t, "grid", 1)
		c.Runtime = cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RuntimeType, rt)})
		c.Check(&stage.CheckContext{Range: hcl.Range{}})
		return c
	}

	var out []string
	add := func(what, why string, a, b *collect.Config) {
		l := line("runtime "+rk.Name+"."+what, k, a, b)
		if why != "" {
			l = strings.Replace(l, "NO REASON GIVEN", why, 1)
		}
		out = append(out, l)
	}

	typ := reflect.TypeFor[stage.Runtime]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if !f.IsExported() || slices.Contains([]string{"Name", "Kind", "Options", "Range"}, f.Name) {
			continue
		}

		values := func(n int) *collect.Config {
			return on(func(rt *stage.Runtime) { set(t, reflect.ValueOf(rt).Elem().Field(i), f.Name, n) })
		}

		name := strings.ToLower(f.Name)
		add(f.Name, runtimes.Beside[name], values(1), values(2))
	}

	for _, o := range rk.Options {
		values := func(n int) *collect.Config {
			return on(func(rt *stage.Runtime) {
				if v := cty.NumberIntVal(int64(n)); o.Secret {
					rt.KeepSecrets(map[string]cty.Value{o.Name: v}, nil, nil)
				} else {
					rt.Options[o.Name] = v
				}
			})
		}

		add(o.Name, o.Doc, values(1), values(2))
	}

	secret := func(n int) *collect.Config {
		return on(func(rt *stage.Runtime) { rt.KeepSecrets(nil, map[string]string{"KEY": strconv.Itoa(n)}, nil) })
	}

	add("env of a sensitive variable", "a secret is in no key", secret(1), secret(2))
	return out
}

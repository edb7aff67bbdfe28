package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"aicplan/cudaops/cuda"
)

// KernelBinding describes a user's kernel: its source and its launch. A number may be the name of a case
// parameter, so that columns of a grid set it for each case.
type KernelBinding struct {
	// Source is the text of the kernel in CUDA C++. A plan may have file instead: a path below the plan's folder.
	Source string `json:"source"`
	// Name identifies the text in messages.
	Name string `json:"name"`
	// Entry is the name of the extern "C" __global__ function.
	Entry string `json:"entry"`
	// Options lists options of the compiler. {column} is replaced by the value of the case: `["-DHEADS={num_heads}"]`.
	Options []string `json:"options"`
	// Grid is the grid of a launch: one to three numbers or names of columns.
	Grid []Number `json:"grid"`
	// Block is the thread block of a launch: one to three numbers or names of columns.
	Block []Number `json:"block"`
	// Shared is the dynamic shared memory in bytes.
	Shared Number `json:"shared"`
	// Args (list of objects) lists the kernel's parameters in order.
	Args []KernelArg `json:"args"`
	// Bytes is the bytes that one launch moves, for rates and the least possible time.
	Bytes Number `json:"bytes"`
	// Flops is the operations of one launch.
	Flops Number `json:"flops"`
	// DType is the type whose tensor throughput bounds the kernel.
	DType DType `json:"dtype"`
}

// KernelArg is a buffer or a value.
type KernelArg struct {
	// Buffer is "in" (filled with random normals, rotating) or "out". A value has none.
	Buffer string `json:"buffer"`
	// Type is float32, bfloat16, float16, fp8 or int8 of a buffer; int32, uint32, int64, uint64, float32 or float64
	// of a value.
	Type string `json:"type"`
	// Elements is the number of elements of a buffer.
	Elements Number `json:"elements"`
	// Value is the value of an argument that is not a buffer.
	Value Number `json:"value"`
}

// Number is a number or the name of a case parameter.
type Number struct {
	value float64
	param string
	set   bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}

	switch v := v.(type) {
	case nil:
	case float64:
		*n = Number{value: v, set: true}
	case string:
		*n = Number{param: v, set: true}
	default:
		return fmt.Errorf("%s is neither a number nor the name of a parameter", b)
	}

	return nil
}

// of returns the number for a case's parameters, or def if it is not set.
func (n Number) of(what string, params map[string]any, def float64) (float64, error) {
	switch {
	case !n.set:
		return def, nil
	case n.param == "":
		return n.value, nil
	}

	v, ok := params[n.param]
	if !ok {
		return 0, fmt.Errorf("%s names the parameter %q, which the case does not have", what, n.param)
	}

	f, ok := asFloat(v)
	if !ok {
		return 0, fmt.Errorf("%s is the parameter %q, which is %v and not a number", what, n.param, v)
	}

	return f, nil
}

func (n Number) whole(what string, params map[string]any, def, least int64) (int64, error) {
	f, err := n.of(what, params, float64(def))
	if err != nil {
		return 0, err
	}

	if f != math.Trunc(f) || f < float64(least) || f > 1<<53 {
		return 0, fmt.Errorf("%s is %v; it must be a whole number of at least %d", what, f, least)
	}

	return int64(f), nil
}

// launch is whole for 32-bit parameters of a launch. The driver would truncate a larger number and launch
// a different grid.
func (n Number) launch(what string, params map[string]any, def, least int64) (int, error) {
	v, err := n.whole(what, params, def, least)
	if err != nil {
		return 0, err
	}

	if v > math.MaxInt32 {
		return 0, fmt.Errorf("%s is %d; a launch takes at most %d", what, v, math.MaxInt32)
	}

	return int(v), nil
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	}

	return 0, false
}

// parseBinding decodes a binding and checks the parts that do not depend on a case.
func parseBinding(raw json.RawMessage) (*KernelBinding, error) {
	b := new(KernelBinding)
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("the kernel's binding: %w", err)
	}

	if b.Name == "" {
		b.Name = "kernel.cu"
	}

	switch {
	case strings.TrimSpace(b.Source) == "":
		return nil, errors.New("the kernel's binding has no source: give the text, such as file(\"kernel.cu\")")
	case b.Entry == "":
		return nil, errors.New("the kernel's binding has no entry: the name of its extern \"C\" __global__ function")
	case len(b.Grid) < 1 || len(b.Grid) > 3 || len(b.Block) < 1 || len(b.Block) > 3:
		return nil, errors.New("grid and block of the kernel's binding need one to three numbers each")
	}

	return b, nil
}

var optionParam = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// compileOptions returns the compiler options for a case's parameters.
func (b *KernelBinding) compileOptions(params map[string]any) ([]string, error) {
	out := make([]string, len(b.Options))
	for i, o := range b.Options {
		var missing string
		out[i] = optionParam.ReplaceAllStringFunc(o, func(m string) string {
			name := m[1 : len(m)-1]
			switch v := params[name].(type) {
			case nil:
				missing = name
			case float64:
				return strconv.FormatFloat(v, 'g', -1, 64)
			default:
				return fmt.Sprint(v)
			}

			return ""
		})

		if missing != "" {
			return nil, fmt.Errorf("option %q names the parameter %q, which the case does not have", o, missing)
		}
	}

	return out, nil
}

// allowShared raises a kernel's limit of dynamic shared memory. It never lowers it, because other open cases
// may use the same kernel.
func (d *Device) allowShared(f cuda.Function, bytes int) error {
	const freely = 48 << 10
	if bytes <= max(freely, d.shared[f]) {
		return nil
	}

	if err := d.Lib.Driver.SetMaxDynamicShared(f, bytes); err != nil {
		return err
	}

	if d.shared == nil {
		d.shared = map[cuda.Function]int{}
	}

	d.shared[f] = bytes
	return nil
}

// userBuffer is a buffer argument with its address in each operand set.
type userBuffer struct {
	arg int
	at  []cuda.Ptr
}

// Kernel prepares a user's kernel for a case.
func (d *Device) Kernel(b *KernelBinding, label string, params map[string]any) (*Case, error) {
	c := &Case{Label: label, DType: b.DType, Unsure: true, Columns: map[string]any{"kernel_source": b.Entry}}
	k := cuda.Launch{Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
	var err error
	for i, n := range b.Grid {
		if k.Grid[i], err = n.launch("grid", params, 1, 1); err != nil {
			return nil, err
		}
	}

	for i, n := range b.Block {
		if k.Block[i], err = n.launch("block", params, 1, 1); err != nil {
			return nil, err
		}
	}

	if k.SharedMemory, err = b.Shared.launch("shared", params, 0, 0); err != nil {
		return nil, err
	}

	if c.Bytes, err = b.Bytes.of("bytes", params, 0); err != nil {
		return nil, err
	}

	if c.Flops, err = b.Flops.of("flops", params, 0); err != nil {
		return nil, err
	}

	options, err := b.compileOptions(params)
	if err != nil {
		return nil, err
	}

	if k.Func, err = d.compile(cuda.Program{Name: b.Name, Source: b.Source, Options: options}, b.Entry); err != nil {
		return nil, err
	}

	if err := d.allowShared(k.Func, k.SharedMemory); err != nil {
		return nil, unsupported(fmt.Sprintf("%d bytes of shared memory for %s", k.SharedMemory, b.Entry), "%w", err)
	}

	args, buffers, rotating, err := d.userArgs(b, label, params)
	if err != nil {
		return nil, err
	}

	d.rotate(c, rotating)
	copies := 1
	if rotating > 0 {
		copies = c.Sets
	}

	least, err := d.userOperands(b, label, params, copies, buffers)
	if err != nil {
		return nil, err
	}

	if rotating > 0 {
		c.Columns["cache"] = d.cacheState(c.Sets, rotating, least)
	}

	c.Enqueue = func(i int, s cuda.Stream) error {
		one := k
		one.Args = append([]any(nil), args...)
		for _, u := range buffers {
			one.Args[u.arg] = u.at[i%len(u.at)]
		}

		return d.Lib.Driver.Launch(one, s)
	}

	return c, nil
}

// userArgs returns the arguments and the buffers of a kernel. rotating is the total size of the inputs in
// bytes.
func (d *Device) userArgs(b *KernelBinding, label string, params map[string]any) (args []any, buffers []*userBuffer,
	rotating float64, err error) {
	args = make([]any, len(b.Args))
	for i, a := range b.Args {
		what := fmt.Sprintf("argument %d of %s", i, b.Entry)
		switch a.Buffer {
		case "in", "out":
			size := DType(a.Type).Size()
			if size == 0 {
				return nil, nil, 0, fmt.Errorf("%s has elements of type %q; buffers have float32, bfloat16, float16, fp8 or int8",
					what, a.Type)
			}

			n, err := a.Elements.whole(what+": elements", params, 0, 1)
			if err != nil {
				return nil, nil, 0, err
			}

			if a.Buffer == "in" {
				rotating += float64(n * size)
			}

			buffers = append(buffers, &userBuffer{arg: i})
		case "":
			v, err := a.Value.of(what, params, 0)
			if err != nil {
				return nil, nil, 0, err
			}

			if args[i], err = kernelValue(a.Type, v); err != nil {
				return nil, nil, 0, fmt.Errorf("%s: %w", what, err)
			}
		default:
			return nil, nil, 0, fmt.Errorf("%s is a buffer of kind %q; there are \"in\" and \"out\"", what, a.Buffer)
		}
	}

	return args, buffers, rotating, nil
}

func kernelValue(typ string, v float64) (any, error) {
	whole := v == math.Trunc(v)
	switch {
	case typ == "float32":
		return float32(v), nil
	case typ == "float64":
		return v, nil
	case typ == "int32" && whole && v >= math.MinInt32 && v <= math.MaxInt32:
		return int32(v), nil
	case typ == "uint32" && whole && v >= 0 && v <= math.MaxUint32:
		return uint32(v), nil
	case typ == "int64" && whole && math.Abs(v) <= 1<<53:
		return int64(v), nil
	case typ == "uint64" && whole && v >= 0 && v <= 1<<53:
		return uint64(v), nil
	}

	return nil, fmt.Errorf("%v is not a value of type %q (int32, uint32, int64, uint64, float32, float64)", v, typ)
}

// userOperands allocates every buffer: inputs once per operand set, outputs once. It returns the smallest
// pool of the inputs, or nil without inputs.
func (d *Device) userOperands(b *KernelBinding, label string, params map[string]any, sets int,
	buffers []*userBuffer) (least *Pool, err error) {
	out := d.Arena.Out.cursor(label)
	cursors := map[DType]*cursor{}
	for set := range sets {
		for _, u := range buffers {
			a := b.Args[u.arg]
			typ, cur := DType(a.Type), out
			switch {
			case a.Buffer == "out" && set > 0:
				continue
			case a.Buffer == "in":
				if cursors[typ] == nil {
					pool, err := d.Arena.Operands(typ)
					if err != nil {
						return nil, err
					}

					if least == nil || pool.bytes < least.bytes {
						least = pool
					}

					cursors[typ] = pool.cursor(label)
				}
				cur = cursors[typ]
			}

			n, err := a.Elements.whole("elements", params, 0, 1)
			if err != nil {
				return nil, err
			}

			u.at = append(u.at, cur.take(fmt.Sprintf("argument %d", u.arg), n*typ.Size()))
			if cur.err != nil {
				return nil, cur.err
			}
		}
	}

	return least, nil
}

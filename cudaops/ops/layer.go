package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"aicplan/cudaops/cublaslt"
	"aicplan/cudaops/driver"
)

// OpLayer is a chain of products, replayed without end: what the rows of its
// parts have to add up to.
const OpLayer = "layer"

// SettleLayer is how long a layer runs at the sustained point, in seconds; the
// last half counts.
const SettleLayer = 2

// Layer is the products of one layer of a model, one after the other, with M
// rows each.
type Layer struct {
	Type  string // as of a GEMM
	M     int64
	Sizes [][2]int64 // n and k of every product
}

// Part is a row that a layer's parts consist of: what the composition check adds
// up. Columns are those that name the row in its table.
type Part map[string]any

// parseSizes reads products as "10240x5120 5120x8192": n and k of each.
func parseSizes(text string) ([][2]int64, error) {
	var out [][2]int64
	for _, word := range strings.Fields(text) {
		n, k, ok := strings.Cut(word, "x")
		a, errN := strconv.ParseInt(n, 10, 64)
		b, errK := strconv.ParseInt(k, 10, 64)
		if !ok || errN != nil || errK != nil || a < 1 || b < 1 {
			return nil, fmt.Errorf("%q is no product; write n and k as 10240x5120, with spaces between products", word)
		}
		out = append(out, [2]int64{a, b})
	}
	if len(out) == 0 {
		return nil, errors.New(`shapes is empty; write n and k of every product, such as "10240x5120 5120x8192"`)
	}
	return out, nil
}

func (p *params) layer() (l Layer) {
	l.Type, l.M = p.word("gemm_dtype"), p.whole("m", 1)
	sizes, err := parseSizes(p.word("shapes"))
	if err != nil {
		p.fail("parameter \"shapes\": %v", err)
	}
	l.Sizes = sizes
	return l
}

// handsOn says that a product's output can be the activations of the next one:
// the same type, as many elements, and an output of its own in a pool of so many
// bytes, wherever in it the outputs begin.
func handsOn(p, next cublaslt.Problem, pool int64) bool {
	_, _, output := p.Extents()
	_, activations, nextOutput := next.Extents()
	return p.D == next.B && activations <= output && (output+2*nextOutput)*p.D.Size() <= pool
}

// Layer prepares the chain: every product with the first algorithm of the
// heuristic and weights of its own, which rotate together. A product reads what the
// one before it has written where that has its type and enough elements: in a
// model activations are in the cache when they are read, and operands of their own
// would have been pushed out of it by the weights of the chain. The first product
// reads the same ones again and again.
func (d *Device) Layer(l Layer) (*Case, error) {
	lt, err := d.lt()
	if err != nil {
		return nil, err
	}
	c := &Case{Label: fmt.Sprintf("layer %s m=%d of %v", l.Type, l.M, l.Sizes), Settle: SettleLayer,
		Kernels: 2 * len(l.Sizes)}
	problems := make([]cublaslt.Problem, len(l.Sizes))
	var parts []Part
	weights := 0.0
	for i, s := range l.Sizes {
		g := GEMM{Type: l.Type, M: l.M, N: s[0], K: s[1]}
		if err := g.check(); err != nil {
			return nil, err
		}
		if problems[i], c.DType, err = g.problem(workspaceBytes); err != nil {
			return nil, err
		}
		bytes, flops := g.Work()
		c.Bytes, c.Flops = c.Bytes+bytes, c.Flops+flops
		extent, _, _ := problems[i].Extents()
		weights += float64(extent * problems[i].A.Size())
		parts = append(parts, Part{"gemm_dtype": l.Type, "m": l.M, "n": s[0], "k": s[1]})
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	reads := make([]bool, len(problems)) // what the product before has written
	chained := 0
	for i := range problems[1:] {
		if reads[i+1] = handsOn(problems[i], problems[i+1], d.Arena.Out.bytes); reads[i+1] {
			// Normals again, however long the chain is.
			problems[i].Alpha = float32(1 / math.Sqrt(float64(problems[i].K)))
			chained++
		}
	}
	d.rotate(c, weights)
	pool, err := d.Arena.Operands(c.DType)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Label, err)
	}
	if float64(c.Sets)*weights > float64(pool.bytes) {
		return nil, fmt.Errorf("%s: %w", c.Label, &TooLargeError{What: "its weights",
			Bytes: int64(float64(c.Sets) * weights), Pool: pool.bytes})
	}
	var products []cublaslt.Matmul
	var sets [][]cublaslt.Operands
	free := func() {
		for _, m := range products {
			m.Close()
		}
	}
	in, out := pool.cursor(hashOf(c.Label)), d.Arena.Out.cursor(hashOf(c.Label))
	for i, p := range problems {
		var left driver.Ptr
		if reads[i] {
			left = sets[i-1][0].D
		}
		mine, err := d.matmulSetsAt(p, in, out, left, c.Sets)
		if err == nil {
			var found cublaslt.Matmul
			if found, err = lt.Prepare(p); err == nil {
				products, sets = append(products, found), append(sets, mine)
				continue
			}
			err = d.matmulError(c.Label, err)
		}
		free()
		return nil, err
	}
	algos := make([]string, len(products))
	for i, m := range products {
		algos[i] = m.Algo().String()
	}
	c.Columns = map[string]any{
		"kernel_source": "cublaslt", "algo": strings.Join(algos, "; "), "cache": d.cacheState(c.Sets, weights, pool),
		"products": len(problems), "chained": chained, "parts": string(text),
	}
	c.Enqueue = func(set int, s driver.Stream) error {
		for i, m := range products {
			if err := m.Enqueue(sets[i][set], s); err != nil {
				return err
			}
		}
		return nil
	}
	c.Close = free
	return c, nil
}

package grid

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
)

func TestDev(t *testing.T) {
	dir := os.Getenv("GRID_DEV")
	if dir == "" {
		t.Skip()
	}
	files, _ := filepath.Glob(dir + "/" + os.Getenv("GRID_GLOB") + "*.hcl")
	sc := testScope()
	sc.vars["local"] = cty.ObjectVal(map[string]cty.Value{"sm": cty.NumberIntVal(90), "device_memory": cty.NumberIntVal(150000000000),
		"prefill_chunk": cty.NumberIntVal(8192), "device_memory_budget": cty.NumberIntVal(135000000000)})
	var tot, totD time.Duration
	for _, f := range files {
		src, _ := os.ReadFile(f)
		var want struct {
			Cases   int
			Points  *int
			Columns []string
		}
		js, _ := os.ReadFile(strings.TrimSuffix(f, ".hcl") + ".json")
		json.Unmarshal(js, &want)
		body := parseBody(t, string(src))
		t0 := time.Now()
		spec, diags := Decode(body, sc)
		t1 := time.Now()
		if diags.HasErrors() {
			t.Errorf("%s: %v", f, diags)
			continue
		}
		for _, d := range diags {
			fmt.Println(filepath.Base(f), d)
		}
		c, diags := Expand(context.Background(), spec, Options{})
		if diags.HasErrors() {
			t.Errorf("%s: %v", f, diags)
			continue
		}
		t2 := time.Now()
		c.Record()
		t3 := time.Now()
		tot += t3.Sub(t1)
		totD += t1.Sub(t0)
		bad := ""
		if c.Len() != want.Cases || want.Points != nil && *want.Points != c.Rows() {
			bad = fmt.Sprint("MISMATCH want ", want.Cases)
			if want.Points != nil {
				bad += fmt.Sprint(" points ", *want.Points)
			}
			t.Errorf("%s", bad)
		}
		fmt.Printf("%-50s cases %d rows %d evals %d decode %v expand %v record %v %s\n", filepath.Base(f), c.Len(), c.Rows(), c.Evaluations(), t1.Sub(t0).Round(10*time.Microsecond), t2.Sub(t1).Round(10*time.Microsecond), t3.Sub(t2).Round(10*time.Microsecond), bad)
		if out := os.Getenv("GRID_OUT"); out != "" {
			w, _ := os.Create(out + "/" + strings.TrimSuffix(filepath.Base(f), ".hcl") + ".txt")
			fmt.Fprintln(w, strings.Join(spec.Columns, ","))
			for i := range c.Len() {
				for j := range spec.Columns {
					if j > 0 {
						fmt.Fprint(w, ",")
					}
					fmt.Fprint(w, plain(c.Value(i, j)))
				}
				fmt.Fprintln(w)
			}
			w.Close()
		}
	}
	fmt.Println("total expand+record", tot, "decode", totD)
}

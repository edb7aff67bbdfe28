package export

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/load/aiperf"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/table"
	"aicplan/stages/telemetry"
)

// AIPerf is the layout of AIPerf's artifact folders: its files as they are. If there are several inputs, each has a
// folder. If an input has several cases, each of them has one in it.
const AIPerf = "aiperf"

// aiperfFiles are the attachments that the layout writes; the series of telemetry
// is more than AIPerf has.
var aiperfFiles = []string{aiperf.SummaryJSON, aiperf.SummaryCSV, aiperf.Records, aiperf.Console, aiperf.Inputs,
	aiperf.Manifest, aiperf.Telemetry, telemetry.SeriesName, aiperf.ServerJSON, aiperf.ServerCSV, aiperf.SlicesJSON,
	aiperf.SlicesCSV}

// aiperf stages the attachments of all rows.
func (a *attached) aiperf(sets []*stage.Dataset) error {
	inputs := a.config.Inputs()
	for i, ds := range sets {
		for row, dir := range caseDirs(ds) {
			if ds.Table.NumRows() == 1 {
				dir = ""
			}
			if len(sets) > 1 {
				dir = path.Join(fileutil.PlainName(inputs[i].Ref.Address, ".-"), dir)
			}

			list, err := stage.Attachments(ds.Table, row)
			if err != nil {
				return err
			}

			if !slices.ContainsFunc(list, func(a stage.Attachment) bool { return a.Name == aiperf.SummaryJSON }) {
				return fmt.Errorf(
					"row %d of %s has no %s: only rows of runtimes that put load on a server have AIPerf's files",
					row+1,
					ds.Info.Op,
					aiperf.SummaryJSON,
				)
			}

			if !a.claim(dir) {
				return fmt.Errorf("two cases would be written to the folder %q; export them separately, with dir", dir)
			}

			for _, file := range list {
				if !slices.Contains(aiperfFiles, file.Name) && aiperf.Path(file.Name) == file.Name {
					continue
				}

				if err := a.attachment(path.Join(dir, aiperf.Path(file.Name)), list, file); err != nil {
					return fmt.Errorf("%s of row %d: %w", file.Name, row+1, err)
				}
			}
		}
	}

	a.Message = fmt.Sprintf("AIPerf's files of %d cases in %s", a.Counts.Rows, a.folder)
	if a.Counts.Rows == 1 {
		a.Message = "AIPerf's files in " + a.folder
	}
	return nil
}

// attached stages the files of a layout that has no table.
type attached struct {
	stage.Outcome
	config *Config
	rc     *stage.RunContext
	folder string
	dirs   map[string]bool // folders of cases
	batch  fileutil.Batch
}

// runAttached writes the files of a layout that has no table.
func (c *Config) runAttached(ctx context.Context, rc *stage.RunContext, sets []*stage.Dataset) (*stage.Outcome, error) {
	a := &attached{config: c, rc: rc, folder: filepath.Join(rc.OutDir, c.Dir), dirs: map[string]bool{},
		Outcome: stage.Outcome{Status: stage.StatusOK, Data: sets[0]}}
	defer a.batch.Discard()

	layout := a.aiperf
	if c.Layout == Experiment {
		layout = a.experiment
	}

	err := layout(sets)
	if err == nil {
		err = locked(ctx, rc, a.folder, a.batch.Commit)
	}
	if err != nil {
		return nil, err
	}

	a.Values = map[string]cty.Value{"path": cty.StringVal(a.folder), "added": cty.NumberIntVal(int64(a.Counts.Rows))}
	return &a.Outcome, nil
}

// claim counts a case with its folder. It returns false if another case has the folder.
func (a *attached) claim(dir string) bool {
	taken := a.dirs[dir]
	a.dirs[dir] = true
	a.Counts.Rows++
	return !taken
}

// put stages the file called name below the folder of the block.
func (a *attached) put(name string, fill func(io.Writer) error) error {
	full, err := fileutil.Place(a.rc.OutDir, path.Join(a.config.Dir, name))
	if err != nil {
		return err
	}

	digest, err := a.batch.Stage(full, fill)
	a.Artifacts = append(a.Artifacts, stage.Artifact{Path: full, Digest: digest, Rows: 1})
	return err
}

// streamed are the files that may be large: a line for each request or scrape.
var streamed = []string{aiperf.Records, aiperf.Telemetry}

// attachment stages one attachment of a row. Large ones are copied without loading them into memory.
func (a *attached) attachment(name string, list []stage.Attachment, file stage.Attachment) error {
	store := a.rc.Store
	if !slices.Contains(streamed, file.Name) {
		data, err := store.GetBytes(file.Digest)
		if err == nil {
			data, err = withTelemetry(store, list, file.Name, data)
		}
		if err != nil {
			return err
		}
		return a.put(name, fileutil.Bytes(data))
	}

	object, err := store.ObjectPath(file.Digest)
	if err != nil {
		return err
	}

	f, err := os.Open(object)
	if err != nil {
		return fileutil.Explain("read", object, err)
	}
	defer f.Close()

	err = a.put(name, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
	if err == nil && a.Artifacts[len(a.Artifacts)-1].Digest != file.Digest {
		_, err = store.GetBytes(file.Digest) // reports the damage
	}
	return err
}

// caseDirs names a folder for each row by the columns of the cases that have more than one value:
// "concurrency-4_isl-100".
func caseDirs(ds *stage.Dataset) []string {
	out := make([]string, ds.Table.NumRows())
	for _, name := range ds.Info.Params {
		at := table.Index(ds.Table, name)
		if at < 0 {
			continue
		}

		words := make([]string, len(out))
		for row := range words {
			words[row] = name + "-" + fileutil.PlainName(ds.Table.Column(at).ValueStr(row), ".-")
		}
		if !slices.ContainsFunc(words, func(w string) bool { return w != words[0] }) {
			continue
		}
		for row, word := range words {
			out[row] = strings.TrimPrefix(out[row]+"_"+word, "_")
		}
	}

	for row, name := range out {
		if len(name) > 200 || strings.Trim(name, ".") == "" {
			out[row] = fmt.Sprintf("case-%d", row+1)
		}
	}
	return out
}

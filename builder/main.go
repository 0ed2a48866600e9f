// sandbox-builder: the program that builds images, inside a builder (a sandbox with the builder
// profile). Everything it reads is hostile and so is everything it runs; it has no more rights than
// the team's own code. The gateway starts it as sessions of the builder's agent:
//
//	sandbox-builder serve          prepares the builder and keeps buildkitd running, where there is one
//	sandbox-builder bases FOLDER   prints the images that the job's Dockerfile is built on, and their lines, as JSON
//	sandbox-builder build FOLDER   builds the job: log on stdout; FOLDER/progress.json,
//	                               FOLDER/result.json and FOLDER/image.tar (an OCI layout)
//
// `build` starts itself as `first ARGUMENTS…`, which becomes buildah in a namespace of its own.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// What the gateway wrote of a job, in FOLDER/job.json; the context lies in FOLDER/context.
type job struct {
	Dockerfile string            `json:"dockerfile"` // within the context; "": Dockerfile
	Target     string            `json:"target"`
	Platform   string            `json:"platform"`
	Args       map[string]string `json:"args"`
	NoCache    bool              `json:"no_cache"`
	Secrets    bool              `json:"secrets"` // some were given (secrets.go)
	// Where the root file system and the configuration of each base lie: FOLDER/../../bases/NAME.tar.
	Bases map[string]string `json:"bases"`
}

func readJob(folder string) (*job, error) {
	bytes, err := os.ReadFile(filepath.Join(folder, "job.json"))
	if err != nil {
		return nil, err
	}
	var read job
	if err := json.Unmarshal(bytes, &read); err != nil {
		return nil, fmt.Errorf("job.json: %w", err)
	}
	if read.Dockerfile == "" {
		read.Dockerfile = "Dockerfile"
	}
	return &read, nil
}

// Written whole or not at all: the gateway reads it at any moment.
func writeJSON(path string, value any) error {
	bytes, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", bytes, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func main() {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == "first":
		err = becomeBuildah(os.Args[2:])
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serve()
	case len(os.Args) == 3 && os.Args[1] == "bases":
		err = printBases(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "build":
		os.Exit(build(os.Args[2]))
	default:
		err = fmt.Errorf("usage: sandbox-builder serve | bases FOLDER | build FOLDER")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-builder:", err)
		os.Exit(1)
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/plugins/content/local"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// What the gateway says of an image's configuration (GET /images/{name}, `config`).
type imageConfig struct {
	Env          map[string]string `json:"env"`
	Workdir      string            `json:"workdir"`
	User         string            `json:"user"`
	Entrypoint   []string          `json:"entrypoint"`
	Cmd          []string          `json:"cmd"`
	ExposedPorts []string          `json:"exposed_ports"`

	// Where the image has them.
	Labels      map[string]string             `json:"labels"`
	Volumes     map[string]struct{}           `json:"volumes"`
	OnBuild     []string                      `json:"onbuild"`
	Shell       []string                      `json:"shell"`
	StopSignal  string                        `json:"stop_signal"`
	Healthcheck *dockerspec.HealthcheckConfig `json:"healthcheck"`
}

// Files that every sandbox is given and mount points of its own: not the image's.
func belongsToSandbox(name string) bool {
	switch name {
	case "etc/hosts", "etc/hostname", "etc/resolv.conf":
		return true
	}
	top, rest, found := strings.Cut(name, "/")
	return found && rest != "" && (top == "proc" || top == "sys" || top == "dev")
}

// Copies the members of a root file system's archive that are the image's own.
func filterRoot(from io.Reader, to io.Writer) error {
	reader, writer := tar.NewReader(from), tar.NewWriter(to)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return writer.Close()
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(header.Name, "./"), "/"), "/")
		if name == "" || name == "." || belongsToSandbox(name) {
			continue
		}
		header.Name = name
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if header.Typeflag == tar.TypeLink {
			header.Linkname = strings.TrimPrefix(strings.TrimPrefix(header.Linkname, "./"), "/")
		}
		header.Format = tar.FormatPAX
		for key := range header.PAXRecords {
			// What is no attribute the writer makes itself; the reader has filled the holes.
			if !strings.HasPrefix(key, "SCHILY.xattr.") {
				delete(header.PAXRecords, key)
			}
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(writer, reader); err != nil {
			return err
		}
	}
}

func put(ctx context.Context, store content.Store, kind string, body []byte) (ocispec.Descriptor, error) {
	descriptor := ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(body),
		Size: int64(len(body))}
	err := content.WriteBlob(ctx, store, descriptor.Digest.String(), bytes.NewReader(body), descriptor)
	return descriptor, err
}

func putLayer(ctx context.Context, store content.Store, path string) (ocispec.Descriptor, error) {
	none := ocispec.Descriptor{}
	root, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer root.Close()
	filtered, err := os.CreateTemp(filepath.Join(stateFolder, "tmp"), "layer")
	if err != nil {
		return none, err
	}
	defer os.Remove(filtered.Name())
	defer filtered.Close()
	sum := sha256.New()
	if err := filterRoot(root, io.MultiWriter(filtered, sum)); err != nil {
		return none, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	size, err := filtered.Seek(0, io.SeekEnd)
	if err != nil {
		return none, err
	}
	if _, err := filtered.Seek(0, io.SeekStart); err != nil {
		return none, err
	}
	descriptor := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer,
		Digest: digest.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil))), Size: size}
	return descriptor, content.WriteBlob(ctx, store, descriptor.Digest.String(), filtered, descriptor)
}

func environmentList(variables map[string]string) []string {
	// PATH comes first, as everywhere; the rest needs no order but a fixed one.
	var list []string
	if path, ok := variables["PATH"]; ok {
		list = append(list, "PATH="+path)
	}
	for _, name := range sortedKeys(variables) {
		if name != "PATH" {
			list = append(list, name+"="+variables[name])
		}
	}
	return list
}

// The image whose parts lie under bases/NAME, as a manifest in the store; its digest. Made once,
// and one at a time: builds are processes of their own, and two bases may hold the same blob.
func assemble(ctx context.Context, store content.Store, name string) (digest.Digest, error) {
	base := filepath.Join(stateFolder, "bases", name)
	lock, err := os.OpenFile(filepath.Join(stateFolder, "bases.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if known, err := os.ReadFile(base + ".manifest"); err == nil {
		if _, err := store.Info(ctx, digest.Digest(known)); err == nil {
			return digest.Digest(known), nil
		}
	}
	text, err := os.ReadFile(base + ".json")
	if err != nil {
		return "", err
	}
	var given imageConfig
	if err := json.Unmarshal(text, &given); err != nil {
		return "", err
	}
	layer, err := putLayer(ctx, store, base+".tar")
	if err != nil {
		return "", err
	}
	ports := map[string]struct{}{}
	for _, port := range given.ExposedPorts {
		ports[port] = struct{}{}
	}
	image := dockerspec.DockerOCIImage{
		Image: ocispec.Image{
			Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH},
			RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
			// Always the same, for what caches by it.
			Created: &time.Time{},
			History: []ocispec.History{{Created: &time.Time{}, CreatedBy: "base image"}},
		},
		Config: dockerspec.DockerOCIImageConfig{
			ImageConfig: ocispec.ImageConfig{User: given.User, Env: environmentList(given.Env),
				Entrypoint: given.Entrypoint, Cmd: given.Cmd, WorkingDir: given.Workdir,
				ExposedPorts: ports, Labels: given.Labels, Volumes: given.Volumes,
				StopSignal: given.StopSignal},
			DockerOCIImageConfigExt: dockerspec.DockerOCIImageConfigExt{
				Healthcheck: given.Healthcheck, OnBuild: given.OnBuild, Shell: given.Shell},
		},
	}
	body, err := json.Marshal(image)
	if err != nil {
		return "", err
	}
	config, err := put(ctx, store, ocispec.MediaTypeImageConfig, body)
	if err != nil {
		return "", err
	}
	body, err = json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest, Config: config,
		Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		return "", err
	}
	manifest, err := put(ctx, store, ocispec.MediaTypeImageManifest, body)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(base+".manifest", []byte(manifest.Digest), 0o644); err != nil {
		return "", err
	}
	// The store has it; the gateway asks for the configuration's file to know that it is here.
	return manifest.Digest, os.Truncate(base+".tar", 0)
}

func openStore() (content.Store, error) {
	return local.NewStore(filepath.Join(stateFolder, "store"))
}

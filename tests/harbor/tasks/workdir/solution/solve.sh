#!/bin/bash
pwd > where

#!/bin/bash
id -u > $HOME/who
